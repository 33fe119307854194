/** Reports what arrives: messages of other people, and receipts for ours; each once, in order. */
import {
  isJidGroup,
  isLidUser,
  isPnUser,
  jidNormalizedUser,
  type BaileysEventMap,
  type BinaryNode,
  type proto,
  type WAMessage,
} from 'baileys'
import { clip, readContent, type InboundContent } from './inboundContent.ts'
import { errorText, type Log } from './log.ts'
import type { MediaJobs } from './mediaJobs.ts'
import type { Leftover, Opened } from './opened.ts'
import { openVote } from './pollVotes.ts'
import { readReceipt, type Me } from './receipts.ts'
import { RecentSet } from './recentSet.ts'
import { reopen } from './reopen.ts'
import type { Reported } from './reported.ts'
import type { EventData, Reporter } from './reporter.ts'

export interface InboundOptions {
  readonly reporter: Pick<Reporter, 'emit'>
  readonly reported: Reported
  readonly opened: Pick<Opened, 'claim'>
  readonly me: () => Me | undefined
  readonly phoneJidOf: (lid: string) => Promise<string | undefined>
  readonly media: Pick<MediaJobs, 'keep'>
  /** A message of ours, as it was sent. */
  readonly sentMessage: (waMessageId: string) => proto.IMessage | undefined
  readonly log: Log
}

/** Several devices of one person each send a receipt, within minutes. */
const REMEMBERED_STATUSES = 5_000

const secondsOf = (value: WAMessage['messageTimestamp']): number =>
  typeof value === 'object' && value !== null ? value.toNumber() : Number(value ?? 0)

const digits = (jid: string): string => jid.split(/[@:]/)[0] ?? ''

/** undefined: nothing to report. */
const contentOf = ({ key, message }: WAMessage): InboundContent | undefined => (key.fromMe ? undefined : readContent(message))

export class Inbound {
  readonly #options: InboundOptions
  readonly #statuses = new RecentSet(REMEMBERED_STATUSES)
  #tail: Promise<unknown> = Promise.resolve()
  /** Of the newest event; the spool writes in order, so all before it are on disk as well. */
  #stored: Promise<void> = Promise.resolve()

  constructor(options: InboundOptions) {
    this.#options = options
  }

  onMessages({ messages, type }: BaileysEventMap['messages.upsert']): void {
    for (const message of messages) this.#watch(this.#take(message, type))
  }

  async #take(message: WAMessage, type: BaileysEventMap['messages.upsert']['type']): Promise<void> {
    const claim = this.#options.opened.claim(message.key.id)
    const content = contentOf(message)
    if (content) await this.#report(message, content, type === 'append')
    else await claim.handled.then(() => this.#stored)
    claim.settle()
  }

  /** Opened, but the process or the connection ended before Baileys handed it over. */
  onLeftover(leftover: Leftover): void {
    this.#watch(this.#takeLeftover(leftover))
  }

  async #takeLeftover(leftover: Leftover): Promise<void> {
    const me = this.#options.me()
    if (me === undefined) return
    const message = reopen(leftover, me)
    const content = contentOf(message)
    // Anything else is for Baileys, when it is delivered again.
    if (content === undefined) return
    await this.#report(message, content, Boolean(leftover.attrs['offline']))
    leftover.settle()
  }

  /** Resolves when what the receipt says is on disk; undefined if it says nothing about a message of ours. */
  onReceipt(node: BinaryNode): Promise<void> | undefined {
    const statuses = readReceipt(node, this.#options.me())
    if (statuses.length === 0) return undefined
    return this.#inOrder(() => {
      for (const { waMessageId, status, to } of statuses) {
        if (this.#statuses.add(`${waMessageId}|${status}|${to}`)) this.#emit('MESSAGE_STATUS', { waMessageId, status, to })
      }
    })
  }

  /** Resolves when it is on disk, now or since an earlier delivery. */
  #report(message: WAMessage, content: InboundContent, offline: boolean): Promise<void> {
    const { key } = message
    return this.#inOrder(async () => {
      if (!key.id || !key.remoteJid) return
      const isGroup = isJidGroup(key.remoteJid) === true
      const sender = (isGroup ? key.participant : key.remoteJid) ?? key.remoteJid
      const { phoneJid, lid } = await this.#identify(sender, isGroup ? key.participantAlt : key.remoteJidAlt)
      const chat = isGroup ? key.remoteJid : (phoneJid ?? jidNormalizedUser(key.remoteJid))
      if (!this.#options.reported.add({ waMessageId: key.id, chat, fromLid: lid })) return
      const { media, pollVote } = content
      const state = media ? await this.#keepMedia(key.id, chat, message, media) : undefined
      this.#emit('MESSAGE_RECEIVED', {
        waMessageId: key.id,
        from: phoneJid ? digits(phoneJid) : jidNormalizedUser(sender),
        ...(lid ? { fromLid: lid } : {}),
        chat,
        isGroup,
        ...(message.pushName ? { pushName: clip(message.pushName) } : {}),
        ...content,
        ...(media ? { media: { ...media, ...state } } : {}),
        ...(pollVote ? { pollVote: { ...pollVote, ...this.#vote(message, [phoneJid, lid]) } } : {}),
        timestamp: secondsOf(message.messageTimestamp) * 1000 || Date.now(),
        offline,
      })
    })
  }

  /** On disk before the event: once the message is told, its file is fetched, whatever happens to this process. */
  async #keepMedia(waMessageId: string, chat: string, { message }: WAMessage, media: NonNullable<InboundContent['media']>): Promise<object> {
    try {
      return await this.#options.media.keep(waMessageId, chat, message, media)
    } catch (error) {
      this.#options.log.error('media_not_planned', { wa_message_id: waMessageId, error: errorText(error) })
      return { state: 'unavailable' }
    }
  }

  #vote({ message }: WAMessage, voters: ReadonlyArray<string | undefined>): { options?: readonly string[] } {
    const update = message?.pollUpdateMessage
    const me = this.#options.me()
    if (!update || !me) return {}
    const names = (jids: ReadonlyArray<string | undefined>): string[] => jids.flatMap(jid => (jid ? [jidNormalizedUser(jid)] : []))
    const poll = this.#options.sentMessage(update.pollCreationMessageKey?.id ?? '')
    const options = openVote(update, poll, { creators: names([me.id, me.lid]), voters: names(voters) })
    return options === undefined ? {} : { options }
  }

  #emit(type: 'MESSAGE_STATUS' | 'MESSAGE_RECEIVED', data: EventData): void {
    this.#stored = this.#options.reporter.emit(type, data)
    // Whoever waits for it is told; that nobody does is no crash.
    this.#stored.catch(() => undefined)
  }

  /** WhatsApp names people by number or by LID; we want the number wherever it can be known. */
  async #identify(sender: string, alternative: string | undefined): Promise<{ phoneJid?: string; lid?: string }> {
    const names = [sender, alternative ?? ''].map(jid => jidNormalizedUser(jid))
    const lid = names.find(jid => isLidUser(jid))
    let phoneJid = names.find(jid => isPnUser(jid))
    if (!phoneJid && lid) {
      phoneJid = await this.#options.phoneJidOf(lid)
    }
    return { ...(phoneJid ? { phoneJid: jidNormalizedUser(phoneJid) } : {}), ...(lid ? { lid } : {}) }
  }

  /** The next one waits for its turn to be numbered, not for the disk: what comes together is written together. */
  #inOrder(work: () => void | Promise<void>): Promise<void> {
    const numbered = this.#tail.then(work)
    this.#tail = numbered.catch(() => undefined)
    return numbered.then(() => this.#stored)
  }

  #watch(work: Promise<void>): void {
    work.catch((error: unknown) => this.#options.log.error('inbound_not_reported', { error: errorText(error) }))
  }
}
