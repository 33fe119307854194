/**
 * What was decrypted lately. A message can be opened once only, and Baileys tells WhatsApp that it has arrived before it hands
 * it to us. So its text is written in the same atomic batch as the ratchet step, and goes when its event is in the spool:
 * delivered again it is answered from here, and not delivered again it is reported from here at the next start.
 */
import { createHash } from 'node:crypto'
import type { BinaryNode, SignalDataSet } from 'baileys'
import type { Change, Journal } from './journal.ts'

/** Not one of Baileys' key types: `export` leaves it out. */
const TYPE = 'opened'
const PREFIX = `${TYPE}-`

/** WhatsApp keeps what it could not deliver for about a month, but what was opened once comes again within minutes. */
const KEEP_MS = 14 * 86_400_000
/** Not known to be reported; normally a handful. Beyond this the oldest go, so that nothing can fill memory and disk. */
const KEEP_OPEN = 1_000
const KEEP_OPEN_BYTES = 4 * 1024 * 1024
/** Reported: only the name is kept, so that a late second delivery gets its receipt instead of an error. */
const KEEP_DONE = 200
/** Clearing goes along with the next batch of keys, so it costs no write of its own; if none comes, after this. */
const CLEAR_AFTER_MS = 1_000

/** A padded message without content: Baileys sends its receipt for it, and there is nothing in it to report. */
const NOTHING = Uint8Array.of(1)

type Attributes = BinaryNode['attrs']

interface Entry {
  readonly at: number
  readonly attrs?: Attributes
  /** base64, with the sender's padding */
  readonly text?: string
}

interface OpenEntry {
  readonly messageId: string | undefined
  readonly bytes: number
  claimed: boolean
}

export interface Claim {
  /** Resolves when Baileys has done everything about the message. */
  readonly handled: Promise<void>
  /** The message is reported, or needs no report: its text may go. */
  settle(): void
}

export interface Leftover {
  readonly attrs: Attributes
  readonly plaintext: Uint8Array
  readonly settle: () => void
}

/** The stanza is part of the name: the same bytes under another id or from someone else are not the same message. */
const nameOf = ({ attrs }: BinaryNode, ciphertext: Uint8Array): string =>
  createHash('sha256')
    .update(JSON.stringify([attrs['id'], attrs['from'], attrs['participant']]))
    .update(ciphertext)
    .digest('base64url')
    .slice(0, 24)

const signal = (): { given: Promise<void>; resolve: () => void } => {
  let resolve!: () => void
  const given = new Promise<void>(done => {
    resolve = done
  })
  return { given, resolve }
}

export class Opened {
  readonly #journal: Journal
  readonly #stanzas = new WeakMap<Uint8Array, BinaryNode>()
  /** Oldest first, both. */
  readonly #open = new Map<string, OpenEntry>()
  readonly #done = new Set<string>()
  #openBytes = 0
  #changes: Change[] = []
  #timer: NodeJS.Timeout | undefined
  #handled = signal()

  constructor(journal: Journal, now: number) {
    this.#journal = journal
    for (const [key, value] of journal.entries()) {
      if (!key.startsWith(PREFIX)) continue
      const { at, attrs, text } = JSON.parse(value) as Entry
      const name = key.slice(PREFIX.length)
      if (now - at > KEEP_MS) this.#later([key, null])
      else if (text === undefined) this.#done.add(name)
      else this.#addOpen(name, attrs?.['id'], text)
    }
  }

  /** To be told of every message stanza before Baileys handles it: the decryption itself sees the bytes only. */
  announce(stanza: BinaryNode): void {
    if (!Array.isArray(stanza.content)) return
    for (const { tag, content } of stanza.content) {
      if (tag === 'enc' && content instanceof Uint8Array) this.#stanzas.set(content, stanza)
    }
  }

  /** What these bytes were opened to before. Baileys opens one message after the other: the one before is done with. */
  lookUp(ciphertext: Uint8Array): Uint8Array | undefined {
    this.#handled.resolve()
    this.#handled = signal()
    const stanza = this.#stanzas.get(ciphertext)
    if (stanza === undefined) return undefined
    const name = nameOf(stanza, ciphertext)
    if (this.#done.has(name)) return NOTHING
    const open = this.#open.get(name)
    const plaintext = this.#read(name)?.plaintext
    if (open === undefined || plaintext === undefined) return undefined
    open.claimed = false
    return plaintext
  }

  /** What to store together with the ratchet step. */
  record(ciphertext: Uint8Array, plaintext: Uint8Array): SignalDataSet | undefined {
    const stanza = this.#stanzas.get(ciphertext)
    if (stanza === undefined) return undefined
    const name = nameOf(stanza, ciphertext)
    const entry: Entry = { at: Date.now(), attrs: stanza.attrs, text: Buffer.from(plaintext).toString('base64') }
    this.#addOpen(name, stanza.attrs['id'], entry.text ?? '')
    return { [TYPE]: { [name]: entry } } as SignalDataSet
  }

  /** Takes the message that Baileys hands over just now; there is no other one of this id between opening and this. */
  claim(messageId: string | null | undefined): Claim {
    const names: string[] = []
    for (const [name, open] of this.#open) {
      if (open.claimed || open.messageId !== messageId) continue
      open.claimed = true
      names.push(name)
    }
    return { handled: this.#handled.given, settle: () => names.forEach(name => this.#settle(name)) }
  }

  /** What an earlier process or connection opened and Baileys never handed over; oldest first, each given once. */
  leftovers(): Leftover[] {
    const found: Leftover[] = []
    for (const [name, open] of this.#open) {
      const entry = open.claimed ? undefined : this.#read(name)
      if (entry === undefined) continue
      open.claimed = true
      found.push({ ...entry, settle: () => this.#settle(name) })
    }
    return found
  }

  /** Clearings that are due, to be committed by the caller. */
  takeChanges(): Change[] {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const changes = this.#changes
    this.#changes = []
    return changes
  }

  #read(name: string): { attrs: Attributes; plaintext: Uint8Array } | undefined {
    const { attrs, text } = JSON.parse(this.#journal.get(PREFIX + name) ?? '{}') as Partial<Entry>
    return attrs === undefined || text === undefined ? undefined : { attrs, plaintext: Buffer.from(text, 'base64') }
  }

  #addOpen(name: string, messageId: string | undefined, text: string): void {
    this.#removeOpen(name)
    this.#open.set(name, { messageId, bytes: text.length, claimed: false })
    this.#openBytes += text.length
    for (const oldest of this.#open.keys()) {
      if (oldest === name || (this.#open.size <= KEEP_OPEN && this.#openBytes <= KEEP_OPEN_BYTES)) break
      this.#removeOpen(oldest)
      this.#later([PREFIX + oldest, null])
    }
  }

  #removeOpen(name: string): boolean {
    this.#openBytes -= this.#open.get(name)?.bytes ?? 0
    return this.#open.delete(name)
  }

  #settle(name: string): void {
    if (!this.#removeOpen(name)) return
    this.#done.add(name)
    this.#later([PREFIX + name, JSON.stringify({ at: Date.now() } satisfies Entry)])
    const [oldest] = this.#done
    if (this.#done.size <= KEEP_DONE || oldest === undefined) return
    this.#done.delete(oldest)
    this.#later([PREFIX + oldest, null])
  }

  #later(change: Change): void {
    this.#changes.push(change)
    this.#timer ??= setTimeout(() => {
      // If it fails, or the journal is closed, the text stays until the next start and is found reported then.
      this.#journal.commit(this.takeChanges()).catch(() => undefined)
    }, CLEAR_AFTER_MS).unref()
  }
}
