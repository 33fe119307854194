/** What an incoming WhatsApp message says, in the words of the seam; pure. */
import { extractMessageContent, getContentType, proto } from 'baileys'

export interface InboundContent {
  readonly kind: string
  readonly text?: string
  readonly media?: { readonly mimetype: string; readonly sizeBytes: number; readonly fileName?: string }
  readonly quoted?: { readonly waMessageId: string; readonly participant?: string; readonly text?: string }
}

const REVOKE = proto.Message.ProtocolMessage.Type.REVOKE
const EDIT = proto.Message.ProtocolMessage.Type.MESSAGE_EDIT

const withText = (kind: string, text: string | null | undefined): InboundContent => (text ? { kind, text } : { kind })

interface MediaLike {
  readonly mimetype?: string | null
  readonly fileLength?: number | { toNumber(): number } | string | null
  readonly fileName?: string | null
  readonly caption?: string | null
}

const sizeOf = (length: MediaLike['fileLength']): number =>
  typeof length === 'object' && length !== null ? length.toNumber() : Number(length ?? 0)

const mediaOf = (kind: string, media: MediaLike): InboundContent => ({
  ...withText(kind, media.caption),
  media: {
    mimetype: media.mimetype ?? 'application/octet-stream',
    sizeBytes: sizeOf(media.fileLength),
    ...(media.fileName ? { fileName: media.fileName } : {}),
  },
})

const target = (key: proto.IMessageKey | null | undefined): Pick<InboundContent, 'quoted'> =>
  key?.id ? { quoted: { waMessageId: key.id, ...(key.participant ? { participant: key.participant } : {}) } } : {}

/** `text` of a message, whatever its kind; used for quotes and edits. */
const plainText = (message: proto.IMessage | null | undefined): string | undefined => {
  const content = extractMessageContent(message ?? undefined)
  return (
    content?.conversation ??
    content?.extendedTextMessage?.text ??
    content?.imageMessage?.caption ??
    content?.videoMessage?.caption ??
    content?.documentMessage?.caption ??
    undefined
  )
}

const fromProtocolMessage = (message: proto.Message.IProtocolMessage): InboundContent | undefined => {
  if (message.type === REVOKE) return { kind: 'delete', ...target(message.key) }
  if (message.type === EDIT) return { ...withText('edit', plainText(message.editedMessage)), ...target(message.key) }
  // Key shares, history notices and settings are Baileys' business.
  return undefined
}

const own = (content: proto.IMessage): InboundContent | undefined => {
  if (content.conversation) return withText('text', content.conversation)
  if (content.extendedTextMessage) return withText('text', content.extendedTextMessage.text)
  if (content.imageMessage) return mediaOf('image', content.imageMessage)
  if (content.videoMessage) return mediaOf('video', content.videoMessage)
  if (content.ptvMessage) return mediaOf('video', content.ptvMessage)
  if (content.audioMessage) return mediaOf('audio', content.audioMessage)
  if (content.documentMessage) return mediaOf('document', content.documentMessage)
  if (content.stickerMessage) return mediaOf('sticker', content.stickerMessage)
  if (content.locationMessage) return withText('location', locationText(content.locationMessage))
  if (content.liveLocationMessage) return withText('location', content.liveLocationMessage.caption)
  if (content.contactMessage) return withText('contact', content.contactMessage.displayName)
  if (content.contactsArrayMessage) return withText('contact', content.contactsArrayMessage.displayName)
  if (content.reactionMessage) return { kind: 'reaction', text: content.reactionMessage.text ?? '', ...target(content.reactionMessage.key) }
  const poll = content.pollCreationMessage ?? content.pollCreationMessageV2 ?? content.pollCreationMessageV3
  if (poll) return withText('poll', poll.name)
  if (content.protocolMessage) return fromProtocolMessage(content.protocolMessage)
  if (content.buttonsResponseMessage) return withText('text', content.buttonsResponseMessage.selectedDisplayText)
  if (content.listResponseMessage) return withText('text', content.listResponseMessage.title)
  if (content.templateButtonReplyMessage) return withText('text', content.templateButtonReplyMessage.selectedDisplayText)
  return getContentType(content) ? { kind: 'other' } : undefined
}

const locationText = (location: proto.Message.ILocationMessage): string =>
  [`${location.degreesLatitude ?? 0},${location.degreesLongitude ?? 0}`, location.name, location.address].filter(Boolean).join(' ')

const quoteIn = (content: proto.IMessage): Pick<InboundContent, 'quoted'> => {
  const type = getContentType(content)
  const part: unknown = type ? content[type] : undefined
  if (typeof part !== 'object' || part === null || !('contextInfo' in part)) return {}
  const context = part.contextInfo as proto.IContextInfo | null | undefined
  if (!context?.stanzaId) return {}
  const text = plainText(context.quotedMessage)
  return {
    quoted: {
      waMessageId: context.stanzaId,
      ...(context.participant ? { participant: context.participant } : {}),
      ...(text ? { text } : {}),
    },
  }
}

/** undefined: nothing a person sent (key exchange, history, a message that could not be decrypted yet). */
export const readContent = (message: proto.IMessage | null | undefined): InboundContent | undefined => {
  const content = extractMessageContent(message ?? undefined)
  if (!content) return undefined
  const found = own(content)
  return found === undefined ? undefined : { ...quoteIn(content), ...found }
}
