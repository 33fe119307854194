/** The messages sent lately, kept on disk: a phone that could not decrypt one asks for it again, also after our restart. */
import { proto } from 'baileys'
import type { Change, Journal } from './journal.ts'

/** Retry requests come within minutes, or when a phone is switched on again after days. */
const KEEP_MS = 7 * 86_400_000
const KEEP_NUMBER = 1_000
const KEEP_BYTES = 2 * 1024 * 1024

const PREFIX = 'msg:'

export const isMessageKey = (key: string): boolean => key.startsWith(PREFIX)

/** `<ms since the epoch>:<base64 of the message>` */
const timeOf = (value: string): number => Number(value.slice(0, value.indexOf(':')))

export const keepMessage = (value: string, now: number): boolean => now - timeOf(value) < KEEP_MS

export class MessageStore {
  readonly #journal: Journal
  /** Oldest first; sizes decide together with number and age. */
  readonly #sizes = new Map<string, number>()
  #bytes = 0

  constructor(journal: Journal) {
    this.#journal = journal
    const found = [...journal.entries()].filter(([key]) => isMessageKey(key))
    for (const [key, value] of found.sort((a, b) => timeOf(a[1]) - timeOf(b[1]))) this.#count(key, value)
  }

  /** Changes that store `message` and let go of the oldest ones beyond the limits. */
  putChanges(waMessageId: string, message: proto.IMessage, now: number): Change[] {
    const key = PREFIX + waMessageId
    const value = `${now}:${Buffer.from(proto.Message.encode(message).finish()).toString('base64')}`
    this.#drop(key)
    this.#count(key, value)
    const changes: Change[] = [[key, value]]
    for (const oldest of this.#sizes.keys()) {
      if (oldest === key || (this.#sizes.size <= KEEP_NUMBER && this.#bytes <= KEEP_BYTES)) break
      this.#drop(oldest)
      changes.push([oldest, null])
    }
    return changes
  }

  get(waMessageId: string): proto.IMessage | undefined {
    const value = this.#journal.get(PREFIX + waMessageId)
    return value === undefined ? undefined : proto.Message.decode(Buffer.from(value.slice(value.indexOf(':') + 1), 'base64'))
  }

  #count(key: string, value: string): void {
    this.#sizes.set(key, value.length)
    this.#bytes += value.length
  }

  #drop(key: string): void {
    this.#bytes -= this.#sizes.get(key) ?? 0
    this.#sizes.delete(key)
  }
}
