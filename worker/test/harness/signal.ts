/** Two ends of a real Signal session: a sender, and the receiver whose keys are in an auth folder. */
import { addTransactionCapability, Curve, encodeWAMessage, generateSignalPubKey, type BinaryNode, type proto } from 'baileys'
import { AuthState } from '../../src/authState.ts'
import { baileysLogger } from '../../src/baileysLogger.ts'
import { createLog } from '../../src/log.ts'
import { durableSignalRepository } from '../../src/signalRepository.ts'
import { newFolder } from './folders.ts'

export const SENDER = '972540000001@s.whatsapp.net'
export const RECEIVER = '972500000001@s.whatsapp.net'

export const quiet = createLog('silent', 'test')
const logger = baileysLogger(quiet)

const repositoryOf = (auth: AuthState) =>
  durableSignalRepository(auth.opened)(
    { creds: auth.creds, keys: addTransactionCapability(auth.keys, logger, { maxCommitRetries: 1, delayBetweenTriesMs: 1 }) },
    logger,
    async () => undefined,
  )

/** What the worker does with a message stanza, up to the decrypted bytes. */
export const receive = async (auth: AuthState, stanza: BinaryNode, options = { announce: true }): Promise<Uint8Array> => {
  if (options.announce) auth.opened.announce(stanza)
  const [enc] = stanza.content as BinaryNode[]
  const type = enc?.attrs['type'] === 'pkmsg' ? 'pkmsg' : 'msg'
  return repositoryOf(auth).decryptMessage({ jid: SENDER, type, ciphertext: enc?.content as Uint8Array })
}

export const GROUP = '123-456@g.us'

/** The same for a group: the sender's key is handed over first, as inside an ordinary message. */
export const receiveInGroup = async (auth: AuthState, stanza: BinaryNode, key?: Uint8Array): Promise<Uint8Array> => {
  const repository = repositoryOf(auth)
  const item = { groupId: GROUP, axolotlSenderKeyDistributionMessage: key ?? null }
  if (key) await repository.processSenderKeyDistributionMessage({ item, authorJid: SENDER })
  auth.opened.announce(stanza)
  const [enc] = stanza.content as BinaryNode[]
  return repository.decryptGroupMessage({ group: GROUP, authorJid: SENDER, msg: enc?.content as Uint8Array })
}

export const writeInGroup = async (id: string, message: proto.IMessage): Promise<{ stanza: () => BinaryNode; key: Uint8Array }> => {
  const sender = repositoryOf(await AuthState.open(newFolder('signal')))
  const data = encodeWAMessage(message)
  const { ciphertext, senderKeyDistributionMessage } = await sender.encryptGroupMessage({ group: GROUP, meId: SENDER, data })
  const attrs = { id, from: GROUP, participant: SENDER, t: '1700000000', type: 'text' }
  const stanza = (): BinaryNode => ({ tag: 'message', attrs, content: [{ tag: 'enc', attrs: { type: 'skmsg' }, content: Buffer.from(ciphertext) }] })
  return { stanza, key: senderKeyDistributionMessage }
}

export interface Conversation {
  /** The receiver's. */
  readonly folder: string
  readonly auth: AuthState
  /** The stanza as WhatsApp delivers it; each call of `deliver` gives new bytes, as from the network. */
  write(id: string, message: proto.IMessage): Promise<() => BinaryNode>
}

export const converse = async (): Promise<Conversation> => {
  const folder = newFolder('signal')
  const auth = await AuthState.open(folder)
  auth.creds.me = { id: RECEIVER.replace('@', ':3@'), lid: '111:3@lid' }
  auth.creds.account = {}
  await auth.saveCreds()
  const preKey = Curve.generateKeyPair()
  await auth.keys.set({ 'pre-key': { '1': preKey } })
  const sender = repositoryOf(await AuthState.open(newFolder('signal')))
  const { signedIdentityKey, signedPreKey, registrationId } = auth.creds
  await sender.injectE2ESession({
    jid: RECEIVER,
    session: {
      registrationId,
      identityKey: generateSignalPubKey(signedIdentityKey.public),
      signedPreKey: {
        keyId: signedPreKey.keyId,
        publicKey: generateSignalPubKey(signedPreKey.keyPair.public),
        signature: signedPreKey.signature,
      },
      preKey: { keyId: 1, publicKey: generateSignalPubKey(preKey.public) },
    },
  })
  const write: Conversation['write'] = async (id, message) => {
    const { type, ciphertext } = await sender.encryptMessage({ jid: RECEIVER, data: encodeWAMessage(message) })
    return () => ({
      tag: 'message',
      attrs: { id, from: SENDER, t: '1700000000', type: 'text' },
      content: [{ tag: 'enc', attrs: { v: '2', type }, content: Buffer.from(ciphertext) }],
    })
  }
  return { folder, auth, write }
}
