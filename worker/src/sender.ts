/** Sends one message: prepare, write it in the ledger, let it go, wait for WhatsApp's acknowledgement. */
import { generateWAMessage, isPnUser, jidNormalizedUser, type proto, type WASocket } from 'baileys'
import { Acks, failureOf, type Ack } from './acks.ts'
import { baileysLogger } from './baileysLogger.ts'
import { sleep, withTimeout } from './clock.ts'
import { NotConnected, type Connection } from './connection.ts'
import { isMediaKind, prepareContent, type MediaFile } from './content.ts'
import type { Journal } from './journal.ts'
import type { Ledger } from './ledger.ts'
import { errorText, type Log } from './log.ts'
import { dropMedia, fetchMedia, type MediaOptions } from './media.ts'
import type { MessageStore } from './messageStore.ts'
import { SendFailure, type OutboxMessage } from './protocol.ts'
import { tidyUpSoon } from './tidy.ts'

export interface SentMessage {
  readonly sentAt: number
  readonly repeated: boolean
}

export interface SenderOptions {
  readonly connection: Connection
  readonly journal: Journal
  readonly ledger: Ledger
  readonly store: MessageStore
  readonly acks: Acks
  readonly media: MediaOptions
  readonly ackTimeoutMs: number
  readonly log: Log
}

const UPLOAD_TIMEOUT_MS = 120_000
/** Encrypting for many devices takes several queries of up to 20 s each. */
const RELAY_TIMEOUT_MS = 60_000
/** A short break of the connection need not cost an attempt. */
const WAIT_FOR_OPEN_MS = 10_000
/** Nobody types longer than this; protects against a wrong number. */
const MAX_TYPING_MS = 60_000
/** Time left on a lease below which starting to send would only end in LEASE_LOST. */
const LEASE_MARGIN_MS = 1_000

export class LeaseExpired extends Error {}

export class Sender {
  readonly #options: SenderOptions

  constructor(options: SenderOptions) {
    this.#options = options
  }

  /** Throws SendFailure when the message was not sent, LeaseExpired when it is not ours any more. */
  async send(message: OutboxMessage): Promise<SentMessage> {
    const known = this.#options.ledger.message(message.waMessageId)
    if (known?.state === 'sent') return { sentAt: known.at, repeated: true }
    requireLease(message)
    let file: MediaFile | undefined
    try {
      const sock = await this.#openSocket()
      if (message.checkExists) await this.#requireOnWhatsApp(sock, message)
      file = await this.#fetchMedia(message)
      const proto = await this.#build(sock, message, file)
      await this.#type(sock, message)
      // A slow download may have taken longer than the lease: the message may be somebody else's by now.
      requireLease(message)
      return await this.#release(sock, message, proto)
    } catch (error) {
      throw this.#translate(error)
    } finally {
      if (file) {
        await dropMedia(file)
        tidyUpSoon()
      }
    }
  }

  async #openSocket(): Promise<WASocket> {
    const { connection } = this.#options
    await connection.waitUntil(() => connection.state === 'open' || connection.state === 'parked', WAIT_FOR_OPEN_MS)
    return connection.requireSocket()
  }

  async #requireOnWhatsApp(sock: WASocket, { to, redriven }: OutboxMessage): Promise<void> {
    if (!isPnUser(to)) return
    const { ledger } = this.#options
    const jid = jidNormalizedUser(to)
    let exists = ledger.knownNumber(jid, Date.now())
    // Whoever drives it again believes that the number is on WhatsApp now.
    if (exists === undefined || (redriven && !exists)) {
      const found = await sock.onWhatsApp(jid)
      if (found === undefined) throw new SendFailure('INTERNAL', 'WhatsApp did not answer the number check', { retryable: true })
      exists = found.some(entry => entry.exists)
      await ledger.rememberNumber(jid, exists, Date.now())
    }
    if (!exists) throw new SendFailure('NOT_ON_WHATSAPP', 'the recipient is not on WhatsApp')
  }

  async #fetchMedia(message: OutboxMessage): Promise<MediaFile | undefined> {
    const { content } = message
    if (!isMediaKind(content.kind) || !('media' in content)) return undefined
    return fetchMedia(content.media, message.waMessageId, this.#options.media)
  }

  async #build(sock: WASocket, message: OutboxMessage, file: MediaFile | undefined): Promise<proto.IMessage> {
    const { content, quoted } = prepareContent(message.to, message.content, file)
    const built = await generateWAMessage(message.to, content, {
      logger: baileysLogger(this.#options.log),
      userJid: sock.user?.id ?? '',
      upload: sock.waUploadToServer,
      options: this.#options.media.fetchOptions,
      messageId: message.waMessageId,
      mediaUploadTimeoutMs: UPLOAD_TIMEOUT_MS,
      ...(quoted ? { quoted } : {}),
    })
    if (!built.message) throw new SendFailure('INVALID_CONTENT', 'the content makes no message')
    dropEmptyThumbnail(built.message)
    return built.message
  }

  /** The moment of typing that a person would need; shown only, so its failure does not matter. */
  async #type(sock: WASocket, message: OutboxMessage): Promise<void> {
    const ms = Math.min(message.typingMs ?? 0, MAX_TYPING_MS, message.lease.expiresAt - Date.now() - 2 * LEASE_MARGIN_MS)
    if (ms <= 0) return
    try {
      await sock.sendPresenceUpdate('composing', message.to)
      await sleep(ms)
      await sock.sendPresenceUpdate('paused', message.to)
    } catch (error) {
      this.#options.log.debug('typing_not_shown', { error: errorText(error) })
    }
  }

  async #release(sock: WASocket, message: OutboxMessage, body: proto.IMessage): Promise<SentMessage> {
    const { connection, journal, ledger, store, acks, ackTimeoutMs } = this.#options
    const { waMessageId, messageId } = message
    const now = Date.now()
    // On disk before the first byte leaves: after a crash this id is known to be in doubt, and its content is at hand.
    await journal.commit([ledger.sendingChange(waMessageId, messageId, now), ...store.putChanges(waMessageId, body, now)])
    if (connection.socket !== sock) throw new NotConnected()
    const ack = acks.expect(waMessageId, RELAY_TIMEOUT_MS + ackTimeoutMs)
    try {
      const relayed = withTimeout(this.#relay(sock, message, body), RELAY_TIMEOUT_MS, 'sending took too long')
      // The acknowledgement can be quicker than the return of relayMessage, and it alone counts.
      await Promise.race([relayed, ack.result])
      const result = await withTimeout(ack.result, ackTimeoutMs, 'timeout').catch(() => 'timeout' as const)
      if (typeof result === 'string') {
        const why = result === 'closed' ? 'the connection closed' : 'no answer came'
        throw new SendFailure('ACK_TIMEOUT', `${why} before WhatsApp acknowledged the message`, { retryable: true })
      }
      return await this.#settle(message, result)
    } finally {
      ack.cancel()
    }
  }

  async #relay(sock: WASocket, message: OutboxMessage, body: proto.IMessage): Promise<void> {
    const isPoll = message.content.kind === 'poll'
    await sock.relayMessage(message.to, body, {
      messageId: message.waMessageId,
      // sendMessage() of Baileys adds this for polls; relayMessage() does not.
      ...(isPoll ? { additionalNodes: [{ tag: 'meta', attrs: { polltype: 'creation' } }] } : {}),
    })
  }

  async #settle(message: OutboxMessage, ack: Ack): Promise<SentMessage> {
    const { ledger } = this.#options
    if (ack.error !== undefined) {
      await ledger.forget(message.waMessageId)
      throw failureOf(ack.error)
    }
    await ledger.markSent(message.waMessageId, message.messageId, ack.at)
    return { sentAt: ack.at, repeated: false }
  }

  #translate(error: unknown): SendFailure | LeaseExpired {
    if (error instanceof SendFailure || error instanceof LeaseExpired) return error
    if (error instanceof NotConnected || isClosedError(error)) {
      return new SendFailure('NOT_CONNECTED', 'the connection to WhatsApp is down', { retryable: true })
    }
    this.#options.log.warn('send_failed', { error: errorText(error) })
    return new SendFailure('INTERNAL', errorText(error), { retryable: true })
  }
}

const requireLease = ({ lease }: OutboxMessage): void => {
  if (lease.expiresAt - Date.now() < LEASE_MARGIN_MS) throw new LeaseExpired('the lease has run out')
}

const isClosedError = (error: unknown): boolean => error instanceof Error && /^Connection (Closed|Terminated)/.test(error.message)

/** See content.ts: an empty thumbnail was only there to keep Baileys from making one. */
const dropEmptyThumbnail = (message: proto.IMessage): void => {
  for (const part of [message.imageMessage, message.videoMessage]) {
    if (part?.jpegThumbnail && part.jpegThumbnail.length === 0) delete part.jpegThumbnail
  }
}

