/** The types of the seam that the worker reads; the JSON Schemas in `protocol/` are the contract. */

export interface MediaSource {
  readonly url?: string
  readonly base64?: string
  readonly mediaId?: string
  readonly mimetype?: string
  readonly fileName?: string
}

export interface MessageRef {
  readonly waMessageId: string
  readonly fromMe: boolean
  readonly participant?: string
}

export interface Quote extends MessageRef {
  readonly text?: string
}

export const MEDIA_KINDS = ['image', 'video', 'audio', 'document', 'sticker'] as const
export type MediaKind = (typeof MEDIA_KINDS)[number]

interface MediaContent {
  readonly kind: MediaKind
  readonly media: MediaSource
  readonly caption?: string
  readonly voice?: boolean
  readonly gif?: boolean
}

export type Content = { readonly quote?: Quote } & (
  | { readonly kind: 'text'; readonly text: string; readonly mentions?: readonly string[] }
  | MediaContent
  | {
      readonly kind: 'location'
      readonly latitude: number
      readonly longitude: number
      readonly name?: string
      readonly address?: string
    }
  | {
      readonly kind: 'contact'
      readonly contacts: ReadonlyArray<{ readonly name: string; readonly phone?: string; readonly vcard?: string }>
    }
  | { readonly kind: 'reaction'; readonly emoji: string; readonly target: MessageRef }
  | { readonly kind: 'poll'; readonly question: string; readonly options: readonly string[]; readonly selectable?: number }
)

export interface OutboxMessage {
  readonly messageId: string
  readonly waMessageId: string
  readonly to: string
  readonly content: Content
  readonly lease: { readonly token: string | number; readonly expiresAt: number }
  readonly attempt?: number
  readonly typingMs?: number
  readonly checkExists?: boolean
  /** Failed before, and somebody had it sent again. */
  readonly redriven?: boolean
}

export interface Command {
  readonly commandId: string
  readonly name: string
  readonly args?: Readonly<Record<string, unknown>>
}

export interface ClaimAnswer {
  readonly messages: readonly OutboxMessage[]
  readonly commands: readonly Command[]
}

export type NackCode =
  | 'NOT_ON_WHATSAPP'
  | 'MEDIA_UNAVAILABLE'
  | 'MEDIA_TOO_LARGE'
  | 'INVALID_CONTENT'
  | 'NOT_CONNECTED'
  | 'ACK_TIMEOUT'
  | 'RATE_LIMITED'
  | 'RESTRICTED'
  | 'WA_REJECTED'
  | 'INTERNAL'

/** Why a message was not sent, in the words of the seam. */
export class SendFailure extends Error {
  readonly code: NackCode
  readonly retryable: boolean
  readonly retryAfterMs: number | undefined

  constructor(code: NackCode, message: string, options: { retryable?: boolean; retryAfterMs?: number } = {}) {
    super(message)
    this.code = code
    this.retryable = options.retryable ?? false
    this.retryAfterMs = options.retryAfterMs
  }
}
