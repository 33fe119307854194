/** What an incoming WhatsApp message says, in the words of the seam; pure. */
import { extractMessageContent, getContentType, proto } from 'baileys'
import type { MediaKind } from './protocol.ts'

export interface MessageName {
  readonly waMessageId: string
  /** Who wrote it, where that is not clear from the chat. */
  readonly participant?: string
}

export interface InboundMedia {
  readonly kind: MediaKind
  readonly mimetype: string
  readonly sizeBytes: number
  readonly sha256?: string
  readonly fileName?: string
  readonly voice?: boolean
  readonly durationS?: number
}

export interface InboundContent {
  readonly kind: string
  /** What the person wrote: the text, the caption, the new text of an edit. */
  readonly text?: string
  readonly media?: InboundMedia
  readonly replyTo?: MessageName & { readonly text?: string }
  readonly reaction?: MessageName & { readonly emoji: string }
  readonly edit?: MessageName & { readonly text: string }
  readonly deletion?: MessageName
  readonly location?: Readonly<Record<string, unknown>>
  readonly contacts?: ReadonlyArray<{ readonly name: string; readonly vcard?: string }>
  readonly poll?: { readonly question: string; readonly options: readonly string[]; readonly selectable: number }
  /** Without `options` when the vote could not be opened. */
  readonly pollVote?: MessageName & { readonly options?: readonly string[] }
}

const REVOKE = proto.Message.ProtocolMessage.Type.REVOKE
const EDIT = proto.Message.ProtocolMessage.Type.MESSAGE_EDIT
/** A card may carry a picture; what nobody can use as a contact need not be passed on. */
const MAX_CONTACTS = 20
const MAX_VCARD = 8_192
/** The sender chooses all of this: an event must stay well below what the control plane takes. */
const MAX_TEXT = 65_536
const MAX_QUOTE = 1_024
const MAX_NAME = 255
const MAX_OPTIONS = 20

/** Half a character (cut here, or sent on purpose) is no JSON that everybody reads: the whole event would be refused. */
const wellFormed = (text: string): string => (/[\ud800-\udfff]/.test(text) ? Buffer.from(text).toString() : text)

export const clip = (text: string, most = MAX_NAME): string => wellFormed(text.length > most ? text.slice(0, most) : text)

const withText = (kind: string, text: string | null | undefined): InboundContent =>
  text ? { kind, text: clip(text, MAX_TEXT) } : { kind }

type Long = number | { toNumber(): number } | string | null | undefined

export const numberOf = (value: Long): number =>
  typeof value === 'object' && value !== null ? value.toNumber() : Number(value ?? 0)

/** The fields that all media messages have in common. */
export interface MediaMessage {
  readonly mimetype?: string | null
  readonly fileLength?: Long
  readonly fileSha256?: Uint8Array | null
  readonly fileEncSha256?: Uint8Array | null
  readonly mediaKey?: Uint8Array | null
  readonly directPath?: string | null
  readonly url?: string | null
  readonly fileName?: string | null
  readonly caption?: string | null
  readonly seconds?: number | null
  readonly ptt?: boolean | null
}

/** The media of a message, whatever its kind. */
export const mediaMessageOf = (message: proto.IMessage | null | undefined): [MediaKind, MediaMessage] | undefined => {
  const content = extractMessageContent(message ?? undefined)
  if (!content) return undefined
  const { imageMessage, videoMessage, ptvMessage, audioMessage, documentMessage, stickerMessage } = content
  if (imageMessage) return ['image', imageMessage]
  if (videoMessage ?? ptvMessage) return ['video', (videoMessage ?? ptvMessage) as MediaMessage]
  if (audioMessage) return ['audio', audioMessage]
  if (documentMessage) return ['document', documentMessage]
  return stickerMessage ? ['sticker', stickerMessage] : undefined
}

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

const mediaOf = ([kind, media]: [MediaKind, MediaMessage]): InboundContent => ({
  ...withText(kind, media.caption),
  media: {
    kind,
    mimetype: clip(media.mimetype || 'application/octet-stream'),
    sizeBytes: Math.max(0, numberOf(media.fileLength)),
    ...(media.fileSha256?.length === 32 ? { sha256: hex(media.fileSha256) } : {}),
    ...(media.fileName ? { fileName: clip(media.fileName) } : {}),
    ...(media.ptt ? { voice: true } : {}),
    ...(media.seconds ? { durationS: media.seconds } : {}),
  },
})

const nameOf = (key: proto.IMessageKey | null | undefined): MessageName | undefined =>
  key?.id ? { waMessageId: clip(key.id), ...(key.participant ? { participant: clip(key.participant) } : {}) } : undefined

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
  const name = nameOf(message.key)
  if (message.type === REVOKE) return { kind: 'delete', ...(name ? { deletion: name } : {}) }
  if (message.type === EDIT) {
    const text = clip(plainText(message.editedMessage) ?? '', MAX_TEXT)
    return { ...withText('edit', text), ...(name ? { edit: { ...name, text } } : {}) }
  }
  // Key shares, history notices and settings are Baileys' business.
  return undefined
}

const fromReaction = (reaction: proto.Message.IReactionMessage): InboundContent => {
  const name = nameOf(reaction.key)
  const emoji = clip(reaction.text ?? '')
  return { ...withText('reaction', emoji), ...(name ? { reaction: { ...name, emoji } } : {}) }
}

/** The sender may write anything, and JSON knows no infinity. */
const finite = (value: number | null | undefined): number => (Number.isFinite(value) ? Number(value) : 0)

const fromLocation = ({ locationMessage: fixed, liveLocationMessage: live }: proto.IMessage): InboundContent | undefined => {
  const place = fixed ?? live
  if (!place) return undefined
  return {
    ...withText('location', live?.caption),
    location: {
      latitude: finite(place.degreesLatitude),
      longitude: finite(place.degreesLongitude),
      ...(fixed?.name ? { name: clip(fixed.name) } : {}),
      ...(fixed?.address ? { address: clip(fixed.address) } : {}),
      ...(live ? { live: true } : {}),
    },
  }
}

const fromContacts = ({ contactMessage: one, contactsArrayMessage: many }: proto.IMessage): InboundContent | undefined => {
  const shared = one ? [one] : many?.contacts
  if (!shared) return undefined
  const contacts = shared.slice(0, MAX_CONTACTS).map(({ displayName, vcard }) => ({
    name: clip(displayName ?? ''),
    ...(vcard && vcard.length <= MAX_VCARD ? { vcard: wellFormed(vcard) } : {}),
  }))
  return { kind: 'contact', contacts }
}

const fromPoll = (content: proto.IMessage): InboundContent | undefined => {
  const poll = content.pollCreationMessage ?? content.pollCreationMessageV2 ?? content.pollCreationMessageV3
  if (!poll) return undefined
  const options = (poll.options ?? []).slice(0, MAX_OPTIONS).map(option => clip(option.optionName ?? ''))
  return {
    ...withText('poll', poll.name),
    poll: { question: clip(poll.name ?? ''), options, selectable: poll.selectableOptionsCount ?? 0 },
  }
}

const fromVote = ({ pollUpdateMessage: vote }: proto.IMessage): InboundContent | undefined => {
  const name = nameOf(vote?.pollCreationMessageKey)
  return vote ? { kind: 'poll_vote', ...(name ? { pollVote: name } : {}) } : undefined
}

const own = (content: proto.IMessage): InboundContent | undefined => {
  if (content.conversation) return withText('text', content.conversation)
  if (content.extendedTextMessage) return withText('text', content.extendedTextMessage.text)
  const media = mediaMessageOf(content)
  if (media) return mediaOf(media)
  if (content.reactionMessage) return fromReaction(content.reactionMessage)
  if (content.protocolMessage) return fromProtocolMessage(content.protocolMessage)
  if (content.buttonsResponseMessage) return withText('text', content.buttonsResponseMessage.selectedDisplayText)
  if (content.listResponseMessage) return withText('text', content.listResponseMessage.title)
  if (content.templateButtonReplyMessage) return withText('text', content.templateButtonReplyMessage.selectedDisplayText)
  return (
    fromLocation(content) ??
    fromContacts(content) ??
    fromPoll(content) ??
    fromVote(content) ??
    (getContentType(content) ? { kind: 'other' } : undefined)
  )
}

const replyIn = (content: proto.IMessage): Pick<InboundContent, 'replyTo'> => {
  const type = getContentType(content)
  const part: unknown = type ? content[type] : undefined
  if (typeof part !== 'object' || part === null || !('contextInfo' in part)) return {}
  const context = part.contextInfo as proto.IContextInfo | null | undefined
  if (!context?.stanzaId) return {}
  const text = plainText(context.quotedMessage)
  return {
    replyTo: {
      waMessageId: clip(context.stanzaId),
      ...(context.participant ? { participant: clip(context.participant) } : {}),
      ...(text ? { text: clip(text, MAX_QUOTE) } : {}),
    },
  }
}

/** undefined: nothing a person sent (key exchange, history, a message that could not be decrypted yet). */
export const readContent = (message: proto.IMessage | null | undefined): InboundContent | undefined => {
  const content = extractMessageContent(message ?? undefined)
  if (!content) return undefined
  const found = own(content)
  return found === undefined ? undefined : { ...replyIn(content), ...found }
}
