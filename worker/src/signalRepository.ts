/** Baileys' Signal repository, with every ratchet step on disk before the bytes made with it leave the process. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { DEFAULT_CONNECTION_CONFIG, type SignalAuthState, type SignalKeyStoreWithTransaction, type SocketConfig } from 'baileys'
import type { Opened } from './opened.ts'

type MakeRepository = SocketConfig['makeSignalRepository']

/** A decryption under way; Baileys runs its ratchet step in a transaction of this key. */
interface Opening {
  readonly transactionKey: string
  readonly ciphertext: Uint8Array
}

/** One for all sockets: Node never forgets one that was used. */
const openings = new AsyncLocalStorage<Opening>()

const withTransactions = ({ keys }: SignalAuthState): SignalKeyStoreWithTransaction => {
  if (!('transaction' in keys)) throw new Error('Baileys gave a key store without transactions')
  return keys
}

/** What a decryption opened is added to its own transaction: ratchet step and text are one record on disk. */
const recordingKeys = (keys: SignalKeyStoreWithTransaction, opened: Opened): SignalKeyStoreWithTransaction => ({
  ...keys,
  transaction: (work, key) => {
    const opening = openings.getStore()
    if (opening?.transactionKey !== key) return keys.transaction(work, key)
    return keys.transaction(async () => {
      const result = await work()
      const record = result instanceof Uint8Array ? opened.record(opening.ciphertext, result) : undefined
      if (record) await keys.set(record)
      return result
    }, key)
  },
})

/**
 * `relayMessage` runs in one key transaction that is committed only after the stanza has been sent. A crash in between
 * would rewind the ratchet: the next message would be encrypted with a key already used and not be readable. Running the
 * repository outside that transaction's async context makes each of its own small transactions commit, durably, first.
 */
export const durableSignalRepository = (opened: Opened): MakeRepository => (auth, logger, pnToLid) => {
  const outside = AsyncLocalStorage.snapshot()
  const keys = recordingKeys(withTransactions(auth), opened)
  const repository = DEFAULT_CONNECTION_CONFIG.makeSignalRepository({ ...auth, keys }, logger, pnToLid)
  const open = async (opening: Opening, decrypt: () => Promise<Uint8Array>): Promise<Uint8Array> =>
    opened.lookUp(opening.ciphertext) ?? outside(() => openings.run(opening, decrypt))
  const storeMappings = repository.lidMapping.storeLIDPNMappings.bind(repository.lidMapping)
  repository.lidMapping.storeLIDPNMappings = pairs => outside(storeMappings, pairs)
  const {
    encryptMessage,
    encryptGroupMessage,
    decryptMessage,
    decryptGroupMessage,
    injectE2ESession,
    validateSession,
    deleteSession,
    migrateSession,
    processSenderKeyDistributionMessage,
  } = repository
  return Object.assign(repository, {
    encryptMessage: (options: Parameters<typeof encryptMessage>[0]) => outside(encryptMessage, options),
    encryptGroupMessage: (options: Parameters<typeof encryptGroupMessage>[0]) => outside(encryptGroupMessage, options),
    decryptMessage: (options: Parameters<typeof decryptMessage>[0]) =>
      open({ transactionKey: options.jid, ciphertext: options.ciphertext }, () => decryptMessage(options)),
    decryptGroupMessage: (options: Parameters<typeof decryptGroupMessage>[0]) =>
      open({ transactionKey: options.group, ciphertext: options.msg }, () => decryptGroupMessage(options)),
    injectE2ESession: (options: Parameters<typeof injectE2ESession>[0]) => outside(injectE2ESession, options),
    validateSession: (jid: string) => outside(validateSession, jid),
    deleteSession: (jids: string[]) => outside(deleteSession, jids),
    migrateSession: (from: string, to: string) => outside(migrateSession, from, to),
    processSenderKeyDistributionMessage: (options: Parameters<typeof processSenderKeyDistributionMessage>[0]) =>
      outside(processSenderKeyDistributionMessage, options),
  })
}
