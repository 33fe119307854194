/** Baileys' authentication state on one journal: a batch is one atomic, durable record. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import {
  BufferJSON,
  initAuthCreds,
  jidDecode,
  jidEncode,
  proto,
  type AuthenticationCreds,
  type SignalDataSet,
  type SignalDataTypeMap,
  type SignalKeyStore,
} from 'baileys'
import { Journal, readJournal, type Change } from './journal.ts'
import { CorruptJournal } from './journalFrames.ts'
import { Opened } from './opened.ts'

export const JOURNAL_NAME = 'journal'
export const CREDS_KEY = 'creds'
const META_KEY = 'meta'

/** Credentials exist but cannot be used: the worker stops rather than silently asking for a new scan. */
export class UnreadableCredentials extends Error {}

export interface Meta {
  readonly browser?: readonly [string, string, string]
  /** When this login was first seen open, ms since the epoch. */
  readonly registeredAt?: number
}

export const toJson = (value: unknown): string => JSON.stringify(value, BufferJSON.replacer)
export const fromJson = (text: string): unknown => JSON.parse(text, BufferJSON.reviver)

export const isPaired = (creds: AuthenticationCreds): boolean => creds.account !== undefined && creds.me !== undefined

export const parseCreds = (text: string): AuthenticationCreds => {
  let value: unknown
  try {
    value = fromJson(text)
  } catch {
    throw new UnreadableCredentials('the credentials are not valid JSON')
  }
  if (typeof value !== 'object' || value === null || !('noiseKey' in value) || !('signedIdentityKey' in value)) {
    throw new UnreadableCredentials('the credentials lack their keys')
  }
  return value as AuthenticationCreds
}

const keyChanges = (data: SignalDataSet): Change[] =>
  Object.entries(data).flatMap(([type, values]) =>
    Object.entries(values ?? {}).map(([id, value]): Change => [
      `${type}-${id}`,
      value === null || value === undefined ? null : toJson(value),
    ]),
  )

/** Values are kept as text: what a caller gets is its own copy and cannot change the store behind our back. */
const createKeyStore = (journal: Journal, opened: Opened): SignalKeyStore => ({
  get: <T extends keyof SignalDataTypeMap>(type: T, ids: string[]) => {
    const found: { [id: string]: SignalDataTypeMap[T] } = {}
    for (const id of ids) {
      const text = journal.get(`${type}-${id}`)
      if (text === undefined) continue
      const value = fromJson(text)
      const typed = type === 'app-state-sync-key' ? proto.Message.AppStateSyncKeyData.fromObject(value as object) : value
      found[id] = typed as SignalDataTypeMap[T]
    }
    return found
  },
  set: data => journal.commit([...keyChanges(data), ...opened.takeChanges()]),
})

export class AuthState {
  readonly keys: SignalKeyStore
  readonly opened: Opened
  readonly #journal: Journal
  #creds: AuthenticationCreds
  #savedCreds: string

  private constructor(journal: Journal, creds: AuthenticationCreds, savedCreds: string) {
    this.#journal = journal
    this.#creds = creds
    this.#savedCreds = savedCreds
    // No makeCacheableSignalKeyStore: everything is in memory already, a cache would only double it.
    this.opened = new Opened(journal, Date.now())
    this.keys = createKeyStore(journal, this.opened)
  }

  static async open(authFolder: string): Promise<AuthState> {
    const path = join(authFolder, JOURNAL_NAME)
    try {
      const isNew = !existsSync(path)
      const journal = await Journal.open(path, isNew ? [[CREDS_KEY, toJson(initAuthCreds())]] : [])
      const text = journal.get(CREDS_KEY)
      if (text === undefined) throw new UnreadableCredentials('the journal holds no credentials')
      const state = new AuthState(journal, parseCreds(text), text)
      await state.dropHalfPairing()
      return state
    } catch (error) {
      if (error instanceof CorruptJournal) throw new UnreadableCredentials(error.message)
      throw error
    }
  }

  /** The one live object: Baileys changes it in place, and each new socket must get the same one. */
  get creds(): AuthenticationCreds {
    return this.#creds
  }

  get generation(): number {
    return this.#journal.generation
  }

  get meta(): Meta {
    const text = this.#journal.get(META_KEY)
    return text === undefined ? {} : (JSON.parse(text) as Meta)
  }

  async saveMeta(meta: Meta): Promise<void> {
    await this.#journal.commit([[META_KEY, JSON.stringify({ ...this.meta, ...meta })]])
  }

  async saveCreds(): Promise<void> {
    const text = toJson(this.#creds)
    if (text === this.#savedCreds) return
    await this.#journal.commit([[CREDS_KEY, text]])
    this.#savedCreds = text
  }

  /**
   * A pairing code writes `me` at once; if pairing was not finished, logging in with it gives 401 and would look like
   * a logout. Such credentials were never accepted by anyone, so new ones take their place.
   */
  async dropHalfPairing(): Promise<void> {
    if (this.#creds.me === undefined || this.#creds.account !== undefined) return
    this.#creds = initAuthCreds()
    await this.saveCreds()
  }

  /** The number behind a LID, if it was ever told; also without a connection. */
  async phoneJidOf(lid: string): Promise<string | undefined> {
    const id = `${jidDecode(lid)?.user ?? ''}_reverse`
    const phone = (await this.keys.get('lid-mapping', [id]))[id]
    return phone ? jidEncode(phone, 's.whatsapp.net') : undefined
  }

  async close(): Promise<void> {
    // Left over, it is found reported at the next start.
    await this.#journal.commit(this.opened.takeChanges()).catch(() => undefined)
    await this.#journal.close()
  }
}

export interface AuthSummary {
  readonly generation: number
  readonly paired: boolean
  readonly phoneNumber: string | null
  readonly jid: string | null
  readonly lid: string | null
  readonly registeredAt?: number
}

/** What may be told about an auth folder without giving a secret away; null if there is none. */
export const inspectAuth = (authFolder: string): AuthSummary | null => {
  const content = readJournal(join(authFolder, JOURNAL_NAME))
  if (content === undefined) return null
  const creds = parseCreds(content.values.get(CREDS_KEY) ?? '')
  const meta = JSON.parse(content.values.get(META_KEY) ?? '{}') as Meta
  const paired = isPaired(creds)
  return {
    generation: content.generation,
    paired,
    phoneNumber: paired ? (/^\d+/.exec(creds.me?.id ?? '')?.[0] ?? null) : null,
    jid: paired ? (creds.me?.id ?? null) : null,
    lid: paired ? (creds.me?.lid ?? null) : null,
    ...(meta.registeredAt === undefined ? {} : { registeredAt: meta.registeredAt }),
  }
}
