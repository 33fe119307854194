/** The journal and what is built on it, without a server. */
import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { X509Certificate } from 'node:crypto';
import { proto } from 'baileys';
import { verifySignature } from 'libsignal/src/curve.js';
import { createCa, createServerCertificate } from '../src/crypto/certificates.ts';
import { loadServerKeys } from '../src/crypto/serverKeys.ts';
import { parseOptions, parseSocksOptions } from '../src/options.ts';
import { signalPublic } from '../src/phones/keys.ts';
import { snapshot } from '../src/state/apply.ts';
import { normalisePhone, Store } from '../src/state/store.ts';

const folder = mkdtempSync(join(tmpdir(), 'simulator-state-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const PHONE = '972500000601';
const device = {
  id: 1, keyIndex: 1, noiseKey: 'AA==', identity: 'AA==', registrationId: 7,
  signedPreKey: { id: 1, key: 'AA==', signature: 'AA==' }, platform: 'web', linkedAt: 1
};

const filled = (name: string): string => {
  const dir = join(folder, name);
  const store = new Store(dir);
  store.ensureAccount(PHONE);
  const entry = { id: 'X', from: '972500000602', fromDevice: 1, text: 'hi', kind: 'text', at: 5 };
  store.commit([
    { k: 'device', phone: PHONE, device },
    { k: 'preKeys', phone: PHONE, id: 1, packed: Buffer.alloc(70, 1).toString('base64') },
    { k: 'accepted', from: '972500000602', id: 'X', to: PHONE, copies: 1, retries: 0 },
    { k: 'accepted', from: '972500000602', id: 'X', to: PHONE, copies: 1, retries: 0 },
    { k: 'retryAsked', from: '972500000602', id: 'X', count: 1 },
    { k: 'inbox', phone: PHONE, entry },
    { k: 'queue', phone: PHONE, device: 1, n: 1, key: 'message:X', stanza: 'AAEC' },
    { k: 'session', phone: PHONE, address: '972500000602.1', session: { version: 'v1' } }
  ]);
  store.commitLazily([{ k: 'preKeyUsed', phone: PHONE, id: 1 }]);
  store.close();
  return dir;
};

test('a compacted journal tells the same story', () => {
  const dir = filled('same');
  const first = new Store(dir);
  const told = [...snapshot(first.model)];
  first.close();
  const second = new Store(dir);
  assert.deepEqual([...snapshot(second.model)], told);
  assert.equal(second.model.duplicateStanzas, 1);
  assert.equal(second.account(PHONE)?.devices.get(1)?.preKeyCount, 1);
  assert.equal(second.account(PHONE)?.devices.get(1)?.queue.size, 1);
  second.close();
});

test('a line that was cut off by a kill is as if it had never been written', () => {
  const dir = filled('torn');
  const file = join(dir, 'journal.jsonl');
  appendFileSync(file, '[{"k":"unlink","phone":"97250');
  const store = new Store(dir);
  assert.equal(store.account(PHONE)?.devices.size, 1);
  store.commit([{ k: 'unlink', phone: PHONE, id: 1 }]);
  store.close();
  const again = new Store(dir);
  assert.equal(again.account(PHONE)?.devices.size, 0);
  again.close();
  assert.ok(readFileSync(file, 'utf8').endsWith('\n'));
});

test('the Noise certificate chain is signed by the root that is told to clients', () => {
  const keys = loadServerKeys(folder);
  const { intermediate, leaf } = proto.CertChain.decode(keys.certChain);
  const middle = proto.CertChain.NoiseCertificate.Details.decode(intermediate?.details ?? Buffer.alloc(0));
  const last = proto.CertChain.NoiseCertificate.Details.decode(leaf?.details ?? Buffer.alloc(0));
  const check = (key: Uint8Array, part: proto.CertChain.INoiseCertificate | null | undefined) =>
    verifySignature(signalPublic(key), Buffer.from(part?.details ?? []), Buffer.from(part?.signature ?? []));
  assert.ok(check(keys.rootPublicKey, intermediate));
  assert.ok(check(Buffer.from(middle.key ?? []), leaf));
  assert.ok(!check(keys.rootPublicKey, leaf));
  assert.deepEqual(Buffer.from(last.key ?? []), Buffer.from(keys.staticKey.public));
  assert.equal(middle.issuerSerial, 0);
});

test('the TLS certificate is for localhost and 127.0.0.1 and signed by the CA', () => {
  const ca = createCa();
  const server = new X509Certificate(createServerCertificate(ca, ['localhost', '127.0.0.1']).cert);
  const root = new X509Certificate(ca.cert);
  assert.ok(server.verify(root.publicKey) && server.checkIssued(root));
  assert.ok(root.ca && !server.ca);
  assert.equal(server.checkHost('localhost'), 'localhost');
  assert.equal(server.checkIP('127.0.0.1'), '127.0.0.1');
  assert.equal(server.checkHost('example.com'), undefined);
});

test('phone numbers are taken in any usual form', () => {
  for (const form of ['+972 50-000-0601', '972500000601@s.whatsapp.net', '972500000601:3@s.whatsapp.net']) assert.equal(normalisePhone(form), PHONE);
  assert.throws(() => normalisePhone('hello'), /not a phone number/);
});

test('options have defaults, take SIMULATOR_PROXIES and refuse nonsense', () => {
  assert.equal(parseOptions(['--state', 'x'], {}).proxies, 5);
  assert.equal(parseOptions(['--state', 'x'], { SIMULATOR_PROXIES: '9' }).proxies, 9);
  assert.throws(() => parseOptions([], {}), /--state/);
  assert.throws(() => parseOptions(['--state', 'x', '--ws-port', 'many'], {}), /whole number/);
  assert.throws(() => parseSocksOptions(['--fault', 'lazy']), /--fault/);
});
