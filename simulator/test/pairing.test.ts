/** Linking by QR and by code, logging in again, and the end of a link, with real Baileys. */
import assert from 'node:assert/strict';
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { after, before, test } from 'node:test';
import { Curve } from 'baileys';
import { Client } from './client.ts';
import { SimulatorProcess, waitUntil } from './process.ts';

const simulator = new SimulatorProcess();
const clients: Client[] = [];
const client = (): Client => {
  const made = new Client(simulator);
  clients.push(made);
  return made;
};

interface Failure {
  error: { code: string; message: string };
}

before(() => simulator.start());
after(async () => {
  await Promise.all(clients.map(c => c.close()));
  await simulator.dispose();
});

test('scanning the QR links the device, which comes back as itself and is open', async () => {
  const phone = '972500000101';
  const device = await client().pair(phone);
  assert.match(device.auth.creds.me?.id ?? '', new RegExp(`^${phone}:1@s.whatsapp.net$`));
  assert.match(device.auth.creds.me?.lid ?? '', /^\d+:1@lid$/);
  assert.ok(device.auth.creds.account?.accountSignatureKey);
  await waitUntil('the phone told its name', () => device.auth.creds.me?.name === 'Phone 0101');
});

test('the bare comma form of a QR is accepted too', async () => {
  const device = client().connect();
  const qr = await waitUntil('QR', () => device.qrs[0]);
  const linked = await simulator.post<{ device: number }>('/phones/972500000102/scan', { qr: qr.split('#')[1] });
  assert.equal(linked.device, 1);
  await device.opened();
});

test('the same port speaks plain WebSocket too', async () => {
  const plain = simulator.ready.websocketUrl.replace('wss:', 'ws:');
  const device = new Client(simulator, { waWebSocketUrl: plain, agent: new HttpAgent() as HttpsAgent });
  clients.push(device);
  await device.pair('972500000112');
});

test('a client that does not know the CA does not connect', async () => {
  const stranger = new Client(simulator, { agent: new HttpsAgent() });
  clients.push(stranger);
  stranger.connect();
  await stranger.closed();
  assert.match(stranger.closeReason, /certificate/);
});

test('a made-up, a damaged and an expired QR are refused with a reason', async () => {
  const device = client().connect();
  const qr = await waitUntil('QR', () => device.qrs[0]);
  const scan = (text: string) => simulator.request<Failure>('POST', '/phones/972500000103/scan', { qr: text });
  const [ref = '', noise, identity, secret, platform] = (qr.split('#')[1] ?? '').split(',');
  const nonsense = await scan('hello');
  assert.deepEqual([nonsense.status, nonsense.body.error.code], [400, 'BAD_QR']);
  const unknown = await scan(['2@nobody', noise, identity, secret, platform].join(','));
  assert.deepEqual([unknown.status, unknown.body.error.code], [400, 'QR_UNKNOWN']);
  const swapped = await scan([ref, identity, noise, secret, platform].join(','));
  assert.deepEqual([swapped.status, swapped.body.error.code], [400, 'BAD_QR']);
  await device.close();
  const expired = await waitUntil('expired', async () => {
    const answer = await scan(qr);
    return answer.body.error.code === 'QR_EXPIRED' ? answer : undefined;
  });
  assert.equal(expired.status, 400);
});

test('typing the pairing code links the device', async () => {
  const phone = '972500000104';
  const device = client().connect();
  await waitUntil('QR', () => device.qrs[0]);
  const code = await device.socket.requestPairingCode(phone);
  const linked = await simulator.post<{ jid: string }>(`/phones/${phone}/pair-code`, { code: `${code.slice(0, 4)}-${code.slice(4)}` });
  assert.equal(linked.jid, `${phone}:1@s.whatsapp.net`);
  await device.opened();
  assert.equal(device.auth.creds.registered, true);
});

test('a wrong pairing code is refused and links nothing', async () => {
  const phone = '972500000105';
  const device = client().connect();
  await waitUntil('QR', () => device.qrs[0]);
  await device.socket.requestPairingCode(phone, 'ABCD1234');
  const { status, body } = await simulator.request<Failure>('POST', `/phones/${phone}/pair-code`, { code: 'ABCD1235' });
  assert.deepEqual([status, body.error.code], [400, 'WRONG_CODE']);
  const { devices } = await simulator.get<{ devices: object[] }>(`/phones/${phone}`);
  assert.equal(devices.length, 0);
});

test('the same credentials log in again without a scan', async () => {
  const device = await client().pair('972500000106');
  await device.close();
  device.connect();
  await device.opened();
  assert.equal(device.qrs.length, 1);
});

test('a login with the keys of another device is refused with 401', async () => {
  const device = await client().pair('972500000113');
  const thief = device.copy();
  clients.push(thief);
  Object.assign(thief.auth.creds, { noiseKey: Curve.generateKeyPair() });
  thief.connect();
  assert.equal(await thief.closed(), 401);
  assert.equal(device.state, 'open');
});

test('unlinking a live device ends it with 401 and so does every later login', async () => {
  const device = await client().pair('972500000107');
  await simulator.post('/phones/972500000107/unlink', {});
  assert.equal(await device.closed(), 401);
  assert.equal(device.closeReason, 'Stream Errored (conflict)');
  device.connect();
  assert.equal(await device.closed(), 401);
  assert.equal(device.closeReason, 'Connection Failure');
});

test('a device that was unlinked while away is refused with 401', async () => {
  const device = await client().pair('972500000108');
  await device.close();
  const { unlinked } = await simulator.post<{ unlinked: number[] }>('/phones/972500000108/unlink', { device: 1 });
  assert.deepEqual(unlinked, [1]);
  device.connect();
  assert.equal(await device.closed(), 401);
});

test('logging out on the device removes the link', async () => {
  const device = await client().pair('972500000109');
  await device.socket.logout();
  await waitUntil('link is gone', async () => {
    const { devices } = await simulator.get<{ devices: object[] }>('/phones/972500000109');
    return devices.length === 0;
  });
});

test('of two connections with the same credentials the older one gets 440', async () => {
  const first = await client().pair('972500000110');
  const second = first.copy();
  clients.push(second);
  await second.connect().opened();
  assert.equal(await first.closed(), 440);
  assert.equal(second.state, 'open');
});

test('a link is told to nobody twice: the next device gets the next number', async () => {
  const phone = '972500000111';
  await client().pair(phone);
  await simulator.post(`/phones/${phone}/unlink`, {});
  const second = await client().pair(phone);
  assert.match(second.auth.creds.me?.id ?? '', /:2@/);
});
