/** Which messages were reported already. It is filled again from the spool at start, so a crash does not make it forget. */
import { isJidGroup } from 'baileys'
import { RecentSet } from './recentSet.ts'

/** Repeats come within minutes (a resend after our crash, several devices of one person). */
const REMEMBERED = 5_000
/** Told to every new file of the spool. */
const NOTED = 500

export interface ReportedMessage {
  readonly waMessageId: string
  readonly chat: string
  readonly fromLid?: string | undefined
}

/** A person goes by number or LID, and which of them is known may change between two deliveries: either one counts. */
const keysOf = ({ waMessageId, chat, fromLid }: ReportedMessage): string[] =>
  [...new Set([chat, isJidGroup(chat) ? chat : (fromLid ?? chat)])].map(name => `${name}|${waMessageId}`)

export class Reported {
  readonly #known = new RecentSet(REMEMBERED)

  /** False if it was there already. */
  add(message: ReportedMessage): boolean {
    const keys = keysOf(message)
    const isNew = !keys.some(key => this.#known.has(key))
    for (const key of keys) this.#known.add(key)
    return isNew
  }

  /** An event found in the spool. */
  addEvent(body: string): void {
    this.add((JSON.parse(body) as { data: ReportedMessage }).data)
  }

  notes(): string[] {
    return this.#known.newest(NOTED).map(key => JSON.stringify(key))
  }

  addNote(note: string): void {
    this.#known.add(JSON.parse(note) as string)
  }
}
