/** A phone's Signal sessions: libsignal on top of the account's stored sessions. */
import { encodeWAMessage, proto, unpadRandomMax16 } from 'baileys';
import { ProtocolAddress, SessionBuilder, SessionCipher, SessionRecord, type SignalStorage } from 'libsignal';
import type { Account } from '../state/model.ts';
import type { StateRecord, StoredSession } from '../state/records.ts';
import { oneTimePreKey, phoneKeys, signalPublic, type KeyBundle } from './keys.ts';

export type CipherType = 'pkmsg' | 'msg';

const PREKEY_MESSAGE_TYPE = 3;

/** Changes are collected, not stored: they must be written together with what was done with the message. */
export class SignalTransaction {
  private readonly changed = new Map<string, StoredSession>();
  private readonly storage: SignalStorage;

  constructor(private readonly account: Account) {
    const keys = phoneKeys(account);
    const pairOf = (pair: { private: Uint8Array; public: Uint8Array }) => ({
      privKey: Buffer.from(pair.private),
      pubKey: signalPublic(pair.public)
    });
    this.storage = {
      loadSession: async address => this.load(address),
      storeSession: async (address, session) => void this.changed.set(address, session.serialize() as unknown as StoredSession),
      isTrustedIdentity: () => true,
      loadPreKey: async id => (id ? pairOf(oneTimePreKey(account, Number(id))) : undefined),
      removePreKey: () => undefined,
      loadSignedPreKey: () => pairOf(keys.signedPreKey.pair),
      getOurRegistrationId: () => keys.registrationId,
      getOurIdentity: () => pairOf(keys.identity)
    };
  }

  private load(address: string): SessionRecord | undefined {
    const stored = this.changed.get(address) ?? this.account.sessions.get(address);
    return stored ? SessionRecord.deserialize(stored as unknown as Uint8Array) : undefined;
  }

  hasSession(phone: string, device: number): boolean {
    return this.load(`${phone}.${device}`)?.haveOpenSession() ?? false;
  }

  async startSession(phone: string, device: number, bundle: KeyBundle): Promise<void> {
    const session = {
      registrationId: bundle.registrationId,
      identityKey: signalPublic(bundle.identity),
      signedPreKey: {
        keyId: bundle.signedPreKey.id,
        publicKey: signalPublic(bundle.signedPreKey.key),
        signature: bundle.signedPreKey.signature
      },
      preKey: bundle.preKey ? { keyId: bundle.preKey.id, publicKey: signalPublic(bundle.preKey.key) } : undefined
    };
    type Session = Parameters<SessionBuilder['initOutgoing']>[0];
    // libsignal takes a bundle without one-time key; its types do not say so.
    await new SessionBuilder(this.storage, new ProtocolAddress(phone, device)).initOutgoing(session as Session);
  }

  async encrypt(phone: string, device: number, message: proto.IMessage): Promise<{ type: CipherType; ciphertext: Buffer }> {
    const cipher = new SessionCipher(this.storage, new ProtocolAddress(phone, device));
    const { type, body } = await cipher.encrypt(encodeWAMessage(message));
    return { type: type === PREKEY_MESSAGE_TYPE ? 'pkmsg' : 'msg', ciphertext: Buffer.from(body as unknown as Uint8Array) };
  }

  async decrypt(phone: string, device: number, type: string, ciphertext: Buffer): Promise<proto.Message> {
    const cipher = new SessionCipher(this.storage, new ProtocolAddress(phone, device));
    const padded = type === 'pkmsg' ? await cipher.decryptPreKeyWhisperMessage(ciphertext) : await cipher.decryptWhisperMessage(ciphertext);
    return proto.Message.decode(unpadRandomMax16(padded));
  }

  records(): StateRecord[] {
    return [...this.changed].map(([address, session]) => ({ k: 'session', phone: this.account.phone, address, session }));
  }
}
