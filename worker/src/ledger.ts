/** What this worker has done, remembered across crashes: messages sent, numbers looked up, commands carried out. */
import type { Change, Journal } from './journal.ts'

export interface LedgerEntry {
  /** sending: the bytes may have left; sent: WhatsApp acknowledged it. */
  readonly state: 'sending' | 'sent'
  readonly messageId: string
  readonly at: number
}

const DAY_MS = 86_400_000
/** A message is repeated by the control plane within hours at most; two weeks leave room for a restored backup. */
const KEEP_MESSAGES_MS = 14 * DAY_MS
const KEEP_COMMANDS_MS = 7 * DAY_MS
/** People join WhatsApp more often than they leave it. */
const KEEP_EXISTS_MS = 30 * DAY_MS
const KEEP_ABSENT_MS = DAY_MS

interface NumberEntry {
  readonly exists: boolean
  readonly at: number
}

/** Says which entries of the ledger are still worth keeping; used when the file is rewritten. */
export const keepLedgerEntry = (key: string, value: string, now: number): boolean => {
  const { at, exists } = JSON.parse(value) as { at: number; exists?: boolean }
  if (key.startsWith('sent:')) return now - at < KEEP_MESSAGES_MS
  if (key.startsWith('done:')) return now - at < KEEP_COMMANDS_MS
  return now - at < (exists ? KEEP_EXISTS_MS : KEEP_ABSENT_MS)
}

export const isLedgerKey = (key: string): boolean => /^(sent|done|number):/.test(key)

export class Ledger {
  readonly #journal: Journal

  constructor(journal: Journal) {
    this.#journal = journal
  }

  message(waMessageId: string): LedgerEntry | undefined {
    return this.#read<LedgerEntry>(`sent:${waMessageId}`)
  }

  /** To be committed before the bytes leave, together with the message itself. */
  sendingChange(waMessageId: string, messageId: string, now: number): Change {
    return [`sent:${waMessageId}`, JSON.stringify({ state: 'sending', messageId, at: now } satisfies LedgerEntry)]
  }

  async markSent(waMessageId: string, messageId: string, now: number): Promise<void> {
    const entry: LedgerEntry = { state: 'sent', messageId, at: now }
    await this.#journal.commit([[`sent:${waMessageId}`, JSON.stringify(entry)]])
  }

  /** WhatsApp refused it: it did not go out, a later attempt may send it. */
  async forget(waMessageId: string): Promise<void> {
    await this.#journal.commit([[`sent:${waMessageId}`, null]])
  }

  knownNumber(jid: string, now: number): boolean | undefined {
    const entry = this.#read<NumberEntry>(`number:${jid}`)
    if (entry === undefined) return undefined
    return now - entry.at < (entry.exists ? KEEP_EXISTS_MS : KEEP_ABSENT_MS) ? entry.exists : undefined
  }

  async rememberNumber(jid: string, exists: boolean, now: number): Promise<void> {
    await this.#journal.commit([[`number:${jid}`, JSON.stringify({ exists, at: now } satisfies NumberEntry)]])
  }

  commandDone(commandId: string): boolean {
    return this.#journal.get(`done:${commandId}`) !== undefined
  }

  async markCommandDone(commandId: string, now: number): Promise<void> {
    await this.#journal.commit([[`done:${commandId}`, JSON.stringify({ at: now })]])
  }

  #read<T>(key: string): T | undefined {
    const text = this.#journal.get(key)
    return text === undefined ? undefined : (JSON.parse(text) as T)
  }
}
