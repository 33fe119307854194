/** The simulator's own certificate authority: one CA kept in the state folder, a fresh server certificate per start. */
import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, randomBytes, sign, type KeyObject } from 'node:crypto';
import { isIP } from 'node:net';
import * as der from './der.ts';

const ECDSA_SHA256 = der.sequence(der.oid('1.2.840.10045.4.3.2'));
const TEN_YEARS_MS = 10 * 365 * 24 * 3600 * 1000;
const CA_NAME = 'WhatsApp simulator CA';

export interface KeyAndCertificate {
  key: string;
  cert: string;
}

const commonName = (name: string): Buffer => der.sequence(der.set(der.sequence(der.oid('2.5.4.3'), der.utf8(name))));

const spkiOf = (key: KeyObject): Buffer => createPublicKey(key).export({ type: 'spki', format: 'der' });

/** RFC 5280 method 1 hashes the bare key; for P-256 these are the last 65 bytes of the SPKI. */
const keyId = (spki: Buffer): Buffer => createHash('sha1').update(spki.subarray(spki.length - 65)).digest();

const extension = (id: string, critical: boolean, value: Buffer): Buffer =>
  critical ? der.sequence(der.oid(id), der.boolean(true), der.octetString(value)) : der.sequence(der.oid(id), der.octetString(value));

interface Request {
  subject: string;
  spki: Buffer;
  issuer: string;
  issuerKey: KeyObject;
  extensions: Buffer[];
}

const issue = ({ subject, spki, issuer, issuerKey, extensions }: Request): string => {
  // One day back: clocks of test machines and containers differ.
  const notBefore = new Date(Date.now() - 24 * 3600 * 1000);
  const notAfter = new Date(Date.now() + TEN_YEARS_MS);
  const tbs = der.sequence(
    der.context(0, der.integer(Buffer.from([2]))),
    der.integer(randomBytes(16)),
    ECDSA_SHA256,
    commonName(issuer),
    der.sequence(der.time(notBefore), der.time(notAfter)),
    commonName(subject),
    spki,
    der.context(3, der.sequence(...extensions))
  );
  const signature = sign('sha256', tbs, issuerKey);
  return der.pem('CERTIFICATE', der.sequence(tbs, ECDSA_SHA256, der.bitString(signature)));
};

const newKey = (): KeyObject => generateKeyPairSync('ec', { namedCurve: 'prime256v1' }).privateKey;
const toPem = (key: KeyObject): string => key.export({ type: 'pkcs8', format: 'pem' }).toString();

export const createCa = (): KeyAndCertificate => {
  const key = newKey();
  const spki = spkiOf(key);
  const cert = issue({
    subject: CA_NAME,
    spki,
    issuer: CA_NAME,
    issuerKey: key,
    extensions: [
      extension('2.5.29.19', true, der.sequence(der.boolean(true))),
      extension('2.5.29.15', true, der.bitString(Buffer.from([0x06]), 1)), // keyCertSign, cRLSign
      extension('2.5.29.14', false, der.octetString(keyId(spki)))
    ]
  });
  return { key: toPem(key), cert };
};

const alternativeName = (name: string): Buffer => {
  if (isIP(name) === 4) return der.context(7, Buffer.from(name.split('.').map(Number)), false);
  return der.context(2, Buffer.from(name, 'ascii'), false);
};

export const createServerCertificate = (ca: KeyAndCertificate, names: string[]): KeyAndCertificate => {
  const caKey = createPrivateKey(ca.key);
  const key = newKey();
  const spki = spkiOf(key);
  const cert = issue({
    subject: names[0] ?? 'localhost',
    spki,
    issuer: CA_NAME,
    issuerKey: caKey,
    extensions: [
      extension('2.5.29.19', true, der.sequence()),
      extension('2.5.29.15', true, der.bitString(Buffer.from([0x80]), 7)), // digitalSignature
      extension('2.5.29.37', false, der.sequence(der.oid('1.3.6.1.5.5.7.3.1'))), // serverAuth
      extension('2.5.29.17', false, der.sequence(...names.map(alternativeName))),
      extension('2.5.29.14', false, der.octetString(keyId(spki))),
      extension('2.5.29.35', false, der.sequence(der.context(0, keyId(spkiOf(caKey)), false)))
    ]
  });
  return { key: toPem(key), cert };
};
