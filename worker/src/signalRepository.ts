/** Baileys' Signal repository, with every ratchet step on disk before the bytes made with it leave the process. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { DEFAULT_CONNECTION_CONFIG, type SocketConfig } from 'baileys'

type MakeRepository = SocketConfig['makeSignalRepository']

/**
 * `relayMessage` runs in one key transaction that is committed only after the stanza has been sent. A crash in between
 * would rewind the ratchet: the next message would be encrypted with a key already used and not be readable. Running the
 * repository outside that transaction's async context makes each of its own small transactions commit, durably, first.
 */
export const makeDurableSignalRepository: MakeRepository = (auth, logger, pnToLid) => {
  const outside = AsyncLocalStorage.snapshot()
  const repository = DEFAULT_CONNECTION_CONFIG.makeSignalRepository(auth, logger, pnToLid)
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
    decryptMessage: (options: Parameters<typeof decryptMessage>[0]) => outside(decryptMessage, options),
    decryptGroupMessage: (options: Parameters<typeof decryptGroupMessage>[0]) => outside(decryptGroupMessage, options),
    injectE2ESession: (options: Parameters<typeof injectE2ESession>[0]) => outside(injectE2ESession, options),
    validateSession: (jid: string) => outside(validateSession, jid),
    deleteSession: (jids: string[]) => outside(deleteSession, jids),
    migrateSession: (from: string, to: string) => outside(migrateSession, from, to),
    processSenderKeyDistributionMessage: (options: Parameters<typeof processSenderKeyDistributionMessage>[0]) =>
      outside(processSenderKeyDistributionMessage, options),
  })
}
