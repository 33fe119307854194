/** A phone's keys, all derived from its seed: nothing to store, nothing to lose, made when first needed. */
import { createPrivateKey, createPublicKey, hkdfSync, randomInt } from 'node:crypto';
import { Curve, type KeyPair } from 'baileys';
import type { Account } from '../state/model.ts';

const X25519_PKCS8_PREFIX = Buffer.from('302e020100300506032b656e04220420', 'hex');
const X25519_PUBLIC_BYTES = 32;
const SIGNED_PREKEY_ID = 1;

export interface PhoneKeys {
  identity: KeyPair;
  registrationId: number;
  signedPreKey: { id: number; pair: KeyPair; signature: Buffer };
}

export interface KeyBundle {
  registrationId: number;
  identity: Buffer;
  signedPreKey: { id: number; key: Buffer; signature: Buffer };
  preKey?: { id: number; key: Buffer };
}

const derive = (seed: Buffer, purpose: string, size: number): Buffer => Buffer.from(hkdfSync('sha256', seed, '', purpose, size));

const keyPair = (seed: Buffer, purpose: string): KeyPair => {
  const secret = derive(seed, purpose, 32);
  // Clamped as curve25519 wants it, because the signing code uses the bytes as they are.
  secret[0] = (secret[0] ?? 0) & 248;
  secret[31] = ((secret[31] ?? 0) & 127) | 64;
  const key = createPrivateKey({ key: Buffer.concat([X25519_PKCS8_PREFIX, secret]), format: 'der', type: 'pkcs8' });
  const spki = createPublicKey(key).export({ format: 'der', type: 'spki' });
  return { private: secret, public: spki.subarray(spki.length - X25519_PUBLIC_BYTES) };
};

export const signalPublic = (key: Uint8Array): Buffer => Buffer.concat([Buffer.from([5]), key]);

const known = new WeakMap<Account, PhoneKeys>();

export const phoneKeys = (account: Account): PhoneKeys => {
  const cached = known.get(account);
  if (cached) return cached;
  const identity = keyPair(account.seed, 'identity');
  const pair = keyPair(account.seed, 'signed prekey');
  const keys: PhoneKeys = {
    identity,
    registrationId: derive(account.seed, 'registration', 2).readUInt16BE() & 0x3fff || 1,
    signedPreKey: {
      id: SIGNED_PREKEY_ID,
      pair,
      signature: Buffer.from(Curve.sign(identity.private, signalPublic(pair.public)))
    }
  };
  known.set(account, keys);
  return keys;
};

/** A one-time prekey is found again by its number alone, so handing one out leaves no trace in the state. */
export const oneTimePreKey = (account: Account, id: number): KeyPair => keyPair(account.seed, `prekey ${id}`);

export const phoneBundle = (account: Account): KeyBundle => {
  const keys = phoneKeys(account);
  const id = randomInt(1, 0xffffff);
  return {
    registrationId: keys.registrationId,
    identity: Buffer.from(keys.identity.public),
    signedPreKey: { id: keys.signedPreKey.id, key: Buffer.from(keys.signedPreKey.pair.public), signature: keys.signedPreKey.signature },
    preKey: { id, key: Buffer.from(oneTimePreKey(account, id).public) }
  };
};
