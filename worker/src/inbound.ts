/** Reports what arrives: messages of other people, and receipts for ours; each once, in order. */
import {
  areJidsSameUser,
  isJidGroup,
  isLidUser,
  isPnUser,
  jidNormalizedUser,
  proto,
  type BaileysEventMap,
  type WAMessage,
  type WAMessageKey,
  type WASocket,
} from 'baileys'
import { readContent } from './inboundContent.ts'
import { errorText, type Log } from './log.ts'
import { RecentSet } from './recentSet.ts'
import type { Reporter } from './reporter.ts'

export interface InboundOptions {
  readonly reporter: Reporter
  readonly socket: () => WASocket | undefined
  readonly log: Log
}

/** Repeats come within minutes (a resend after our crash, several devices of one person). */
const REMEMBERED = 5_000

const { Status } = proto.WebMessageInfo
const STATUS_WORDS: Readonly<Record<number, string>> = {
  [Status.DELIVERY_ACK]: 'delivered',
  [Status.READ]: 'read',
  [Status.PLAYED]: 'played',
}

const secondsOf = (value: WAMessage['messageTimestamp']): number =>
  typeof value === 'object' && value !== null ? value.toNumber() : Number(value ?? 0)

const digits = (jid: string): string => jid.split(/[@:]/)[0] ?? ''

export class Inbound {
  readonly #options: InboundOptions
  readonly #messages = new RecentSet(REMEMBERED)
  readonly #statuses = new RecentSet(REMEMBERED)
  #tail: Promise<void> = Promise.resolve()

  constructor(options: InboundOptions) {
    this.#options = options
  }

  /** An event found in the spool at start: what was reported before a crash is not reported again after it. */
  remember(type: string, body: string): void {
    if (type !== 'MESSAGE_RECEIVED') return
    const { data } = JSON.parse(body) as { data: { waMessageId: string; chat: string } }
    this.#messages.add(`${data.chat}|${data.waMessageId}`)
  }

  onMessages({ messages, type }: BaileysEventMap['messages.upsert']): void {
    for (const message of messages) this.#inOrder(() => this.#report(message, type === 'append'))
  }

  onUpdates(updates: BaileysEventMap['messages.update']): void {
    for (const { key, update } of updates) {
      const word = typeof update.status === 'number' ? STATUS_WORDS[update.status] : undefined
      if (word !== undefined && key.fromMe && key.remoteJid) this.#status(key, word, key.remoteJid)
    }
  }

  /** Groups: one receipt per member. */
  onReceipts(updates: BaileysEventMap['message-receipt.update']): void {
    for (const { key, receipt } of updates) {
      const word = receipt.playedTimestamp ? 'played' : receipt.readTimestamp ? 'read' : 'delivered'
      if (key.fromMe && receipt.userJid) this.#status(key, word, receipt.userJid)
    }
  }

  #status(key: WAMessageKey, status: string, to: string): void {
    const me = this.#options.socket()?.user
    // Receipts of our own other devices, as for the message to itself, say nothing about a recipient.
    if (!key.id || areJidsSameUser(to, me?.id) || areJidsSameUser(to, me?.lid)) return
    // Several devices of one person each send a receipt.
    if (!this.#statuses.add(`${key.id}|${status}|${jidNormalizedUser(to)}`)) return
    this.#inOrder(() => this.#options.reporter.emit('MESSAGE_STATUS', { waMessageId: key.id, status, to: jidNormalizedUser(to) }))
  }

  async #report(message: WAMessage, offline: boolean): Promise<void> {
    const { key } = message
    const content = readContent(message.message)
    if (content === undefined || key.fromMe || !key.id || !key.remoteJid) return
    const sender = (isJidGroup(key.remoteJid) ? key.participant : key.remoteJid) ?? key.remoteJid
    const { phoneJid, lid } = await this.#identify(sender, isJidGroup(key.remoteJid) ? key.participantAlt : key.remoteJidAlt)
    const chat = isJidGroup(key.remoteJid) ? key.remoteJid : (phoneJid ?? jidNormalizedUser(key.remoteJid))
    if (!this.#messages.add(`${chat}|${key.id}`)) return
    await this.#options.reporter.emit('MESSAGE_RECEIVED', {
      waMessageId: key.id,
      from: phoneJid ? digits(phoneJid) : jidNormalizedUser(sender),
      ...(lid ? { fromLid: lid } : {}),
      chat,
      ...content,
      timestamp: secondsOf(message.messageTimestamp) * 1000 || Date.now(),
      offline,
    })
  }

  /** WhatsApp names people by number or by LID; we want the number wherever it can be known. */
  async #identify(sender: string, alternative: string | undefined): Promise<{ phoneJid?: string; lid?: string }> {
    const names = [sender, alternative ?? ''].map(jid => jidNormalizedUser(jid))
    const lid = names.find(jid => isLidUser(jid))
    let phoneJid: string | null | undefined = names.find(jid => isPnUser(jid))
    if (!phoneJid && lid) {
      phoneJid = await this.#options.socket()?.signalRepository.lidMapping.getPNForLID(lid).catch(() => null)
    }
    return { ...(phoneJid ? { phoneJid: jidNormalizedUser(phoneJid) } : {}), ...(lid ? { lid } : {}) }
  }

  #inOrder(work: () => Promise<void>): void {
    this.#tail = this.#tail.then(work).catch((error: unknown) => {
      this.#options.log.error('inbound_not_reported', { error: errorText(error) })
    })
  }
}
