/** Maps the content of an outbox message to Baileys' form; pure. Wrong content is an INVALID_CONTENT failure. */
import type { AnyMessageContent, WAMessage } from 'baileys'
import { MEDIA_KINDS, SendFailure, type Content, type MediaKind, type Quote } from './protocol.ts'

/** A file on disk: Baileys streams it from there instead of holding it in memory. */
export interface MediaFile {
  readonly path: string
  readonly mimetype?: string
  readonly fileName?: string
}

export interface PreparedContent {
  readonly content: AnyMessageContent
  readonly quoted?: WAMessage
}

const DEFAULT_TYPES: Readonly<Record<MediaKind, string>> = {
  image: 'image/jpeg',
  video: 'video/mp4',
  audio: 'audio/mp4',
  document: 'application/octet-stream',
  sticker: 'image/webp',
}

const invalid = (message: string): SendFailure => new SendFailure('INVALID_CONTENT', message)

const text = (value: unknown, name: string): string => {
  if (typeof value !== 'string' || value.length === 0) throw invalid(`${name} must be a non-empty text`)
  return value
}

const coordinate = (value: unknown, name: string, limit: number): number => {
  if (typeof value !== 'number' || !Number.isFinite(value) || Math.abs(value) > limit) {
    throw invalid(`${name} must be a number between -${limit} and ${limit}`)
  }
  return value
}

export const isMediaKind = (kind: string): kind is MediaKind => MEDIA_KINDS.some(name => name === kind)

/** Backslash, comma, semicolon and line feed have a meaning in vCards. */
const escapeVcard = (value: string): string => value.replace(/([\\,;])/g, '\\$1').replace(/\r?\n/g, '\\n')

export const vcardOf = (name: string, phone: string | undefined): string => {
  const digits = phone?.replace(/\D/g, '')
  const number = digits ? [`TEL;type=CELL;type=VOICE;waid=${digits}:+${digits}`] : []
  return ['BEGIN:VCARD', 'VERSION:3.0', `N:;${escapeVcard(name)};;;`, `FN:${escapeVcard(name)}`, ...number, 'END:VCARD'].join('\n')
}

const quotedMessage = (to: string, quote: Quote): WAMessage => ({
  key: {
    remoteJid: to,
    id: text(quote.waMessageId, 'quote.waMessageId'),
    fromMe: quote.fromMe,
    ...(quote.participant ? { participant: quote.participant } : {}),
  },
  message: { conversation: quote.text ?? '' },
})

const mediaContent = (content: Extract<Content, { kind: MediaKind }>, file: MediaFile | undefined): AnyMessageContent => {
  if (file === undefined) throw invalid('media is missing')
  const upload = { url: file.path }
  const mimetype = file.mimetype ?? (content.kind === 'audio' && content.voice ? 'audio/ogg; codecs=opus' : DEFAULT_TYPES[content.kind])
  const caption = content.caption ? { caption: content.caption } : {}
  // An empty thumbnail keeps Baileys from starting ffmpeg or an image library; it is taken out again before sending.
  const noThumbnail = { jpegThumbnail: '' }
  switch (content.kind) {
    case 'image':
      return { image: upload, mimetype, ...caption, ...noThumbnail }
    case 'video':
      return { video: upload, mimetype, gifPlayback: content.gif === true, ...caption, ...noThumbnail }
    case 'audio':
      return { audio: upload, mimetype, ptt: content.voice === true }
    case 'document':
      return { document: upload, mimetype, fileName: file.fileName ?? 'file', ...caption }
    case 'sticker':
      return { sticker: upload, mimetype }
  }
}

const contactContent = (contacts: Extract<Content, { kind: 'contact' }>['contacts']): AnyMessageContent => {
  if (!Array.isArray(contacts) || contacts.length === 0) throw invalid('contacts must not be empty')
  const cards = contacts.map(({ name, phone, vcard }) => ({
    displayName: text(name, 'contact name'),
    vcard: vcard ?? vcardOf(name, phone),
  }))
  const displayName = cards.length === 1 ? (cards[0]?.displayName ?? '') : `${cards.length} contacts`
  return { contacts: { displayName, contacts: cards } }
}

const pollContent = (content: Extract<Content, { kind: 'poll' }>): AnyMessageContent => {
  const { options } = content
  if (!Array.isArray(options) || options.length < 2 || options.length > 12) throw invalid('a poll has 2 to 12 options')
  const values = options.map(option => text(option, 'poll option'))
  const selectableCount = content.selectable ?? 1
  if (!Number.isInteger(selectableCount) || selectableCount < 0 || selectableCount > values.length) {
    throw invalid('selectable must be between 0 (any number) and the number of options')
  }
  return { poll: { name: text(content.question, 'question'), values, selectableCount } }
}

const bodyOf = (to: string, content: Content, file: MediaFile | undefined): AnyMessageContent => {
  switch (content.kind) {
    case 'text':
      return {
        text: text(content.text, 'text'),
        // null, not undefined: no look-up of links in the text.
        linkPreview: null,
        ...(content.mentions?.length ? { mentions: [...content.mentions] } : {}),
      }
    case 'location':
      return {
        location: {
          degreesLatitude: coordinate(content.latitude, 'latitude', 90),
          degreesLongitude: coordinate(content.longitude, 'longitude', 180),
          ...(content.name ? { name: content.name } : {}),
          ...(content.address ? { address: content.address } : {}),
        },
      }
    case 'contact':
      return contactContent(content.contacts)
    case 'reaction': {
      const { waMessageId, fromMe, participant } = content.target ?? {}
      if (typeof content.emoji !== 'string') throw invalid('emoji must be a text')
      const id = text(waMessageId, 'target.waMessageId')
      return { react: { text: content.emoji, key: { remoteJid: to, id, fromMe, ...(participant ? { participant } : {}) } } }
    }
    case 'poll':
      return pollContent(content)
    case 'image':
    case 'video':
    case 'audio':
    case 'document':
    case 'sticker':
      return mediaContent(content, file)
    default:
      throw invalid('unknown kind of content')
  }
}

export const prepareContent = (to: string, content: Content, file?: MediaFile): PreparedContent => ({
  content: bodyOf(to, content, file),
  ...(content.quote ? { quoted: quotedMessage(to, content.quote) } : {}),
})
