/** The server's long-lived secrets, made at the first start: Noise root and static key, certificate chain, CA. */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Curve, proto, type KeyPair } from 'baileys';
import { createCa, type KeyAndCertificate } from './certificates.ts';

export interface ServerKeys {
  rootPublicKey: Buffer;
  staticKey: KeyPair;
  /** CertChain as sent in the handshake: root signs intermediate, intermediate signs the static key. */
  certChain: Buffer;
  ca: KeyAndCertificate;
  caFile: string;
}

interface StoredKeys {
  rootPublicKey: string;
  staticPrivate: string;
  staticPublic: string;
  certChain: string;
  ca: KeyAndCertificate;
}

const { Details } = proto.CertChain.NoiseCertificate;

const makeCertChain = (root: KeyPair, staticKey: KeyPair): Buffer => {
  const intermediate = Curve.generateKeyPair();
  const now = Math.floor(Date.now() / 1000);
  const validity = { notBefore: now - 86_400, notAfter: now + 10 * 365 * 86_400 };
  // issuerSerial 0 is the serial that Baileys expects of the root.
  const upper = Details.encode({ serial: 1, issuerSerial: 0, key: intermediate.public, ...validity }).finish();
  const lower = Details.encode({ serial: 2, issuerSerial: 1, key: staticKey.public, ...validity }).finish();
  const chain = proto.CertChain.encode({
    intermediate: { details: upper, signature: Curve.sign(root.private, upper) },
    leaf: { details: lower, signature: Curve.sign(intermediate.private, lower) }
  });
  return Buffer.from(chain.finish());
};

const createKeys = (): StoredKeys => {
  const root = Curve.generateKeyPair();
  const staticKey = Curve.generateKeyPair();
  return {
    rootPublicKey: Buffer.from(root.public).toString('hex'),
    staticPrivate: Buffer.from(staticKey.private).toString('base64'),
    staticPublic: Buffer.from(staticKey.public).toString('base64'),
    certChain: makeCertChain(root, staticKey).toString('base64'),
    ca: createCa()
  };
};

/** Write beside and rename, so that a kill never leaves half a file. */
export const writeAtomically = (file: string, content: string, mode = 0o600): void => {
  const temporary = `${file}.${process.pid}.tmp`;
  writeFileSync(temporary, content, { mode });
  renameSync(temporary, file);
};

export const loadServerKeys = (stateDir: string): ServerKeys => {
  const file = join(stateDir, 'server-keys.json');
  if (!existsSync(file)) writeAtomically(file, JSON.stringify(createKeys()));
  const stored = JSON.parse(readFileSync(file, 'utf8')) as StoredKeys;
  const caFile = join(stateDir, 'ca.pem');
  writeAtomically(caFile, stored.ca.cert, 0o644);
  return {
    rootPublicKey: Buffer.from(stored.rootPublicKey, 'hex'),
    staticKey: { private: Buffer.from(stored.staticPrivate, 'base64'), public: Buffer.from(stored.staticPublic, 'base64') },
    certChain: Buffer.from(stored.certChain, 'base64'),
    ca: stored.ca,
    caFile
  };
};
