/** Every fault does what it says to a real Baileys client. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { Client } from './client.ts';
import { SimulatorProcess, waitUntil } from './process.ts';

const A = '972500000301';
const C = '972500000303';
const simulator = new SimulatorProcess();
let a: Client;

before(async () => {
  await simulator.start();
  await simulator.post('/phones', { phone: C });
  a = await new Client(simulator, { keepAliveIntervalMs: 500 }).pair(A);
});
beforeEach(async () => {
  await simulator.fault({ clear: true });
  if (a.state !== 'open') await a.connect().opened();
});
after(async () => {
  await a?.close();
  await simulator.dispose();
});

const inboxIds = async () => (await simulator.inbox(C)).map(entry => entry.id);

test('drop cuts the connection', async () => {
  await simulator.fault({ drop: A });
  assert.equal(await a.closed(), 428);
});

test('drop of another phone leaves this one alone', async () => {
  const { closed } = await simulator.fault({ drop: C });
  assert.equal(closed, 0);
  assert.equal(a.state, 'open');
});

test('a login can be refused with any code, a given number of times', async () => {
  for (const code of [403, 405, 503]) {
    await simulator.fault({ refuseLogin: code, phone: A, count: 1 });
    await a.close();
    a.connect();
    assert.equal(await a.closed(), code);
    assert.equal(a.closeReason, 'Connection Failure');
    await a.connect().opened();
  }
});

test('sends can be refused with a code; nothing is delivered', async () => {
  await simulator.fault({ nackSends: 463, phone: A, count: 1 });
  const refused = await a.send(C, 'refused');
  assert.equal((await a.ack(refused)).error, '463');
  const taken = await a.send(C, 'taken');
  assert.equal((await a.ack(taken)).error, undefined);
  const ids = await inboxIds();
  assert.deepEqual([ids.includes(refused), ids.includes(taken)], [false, true]);
});

test('acks can be slow', async () => {
  await simulator.fault({ ackDelayMs: 300 });
  const start = Date.now();
  await a.ack(await a.send(C, 'slowly'));
  assert.ok(Date.now() - start >= 295);
});

test('acks can be missing although the message is delivered', async () => {
  await simulator.fault({ noAcks: true, phone: A });
  const id = await a.send(C, 'no ack');
  await waitUntil('delivered', async () => (await inboxIds()).includes(id));
  assert.ok(!a.acks.some(ack => ack.id === id));
  await simulator.fault({ noAcks: false, phone: A });
  await a.ack(await a.send(C, 'with ack'));
});

test('sends can be lost: neither accepted nor acknowledged', async () => {
  await simulator.fault({ loseSends: true, count: 1 });
  const lost = await a.send(C, 'lost');
  const kept = await a.send(C, 'kept');
  await a.ack(kept);
  assert.ok(!a.acks.some(ack => ack.id === lost));
  assert.ok(!(await inboxIds()).includes(lost));
});

test('a black hole swallows a connection and gives back what was in flight when it ends', async () => {
  await simulator.fault({ blackHole: true });
  const id = await a.send(C, 'through the hole');
  const other = new Client(simulator, { connectTimeoutMs: 700 }).connect();
  assert.ok((await other.closed()) !== undefined, 'a new connection times out');
  assert.ok(!a.acks.some(ack => ack.id === id));
  await simulator.fault({ blackHole: false });
  await a.ack(id);
});

test('the upgrade can be refused with an HTTP status', async () => {
  await simulator.fault({ upgradeStatus: 503 });
  const client = new Client(simulator).connect();
  const status = await new Promise(resolve =>
    client.socket.ws.on('unexpected-response', (_: unknown, response: { statusCode: number }) => resolve(response.statusCode))
  );
  assert.equal(status, 503);
  client.close().catch(() => undefined);
});

test('a stream error of any code ends the connection', async () => {
  await simulator.fault({ streamError: 503, phone: A });
  assert.equal(await a.closed(), 503);
});

test('unknown faults and wrong values are refused', async () => {
  assert.equal((await simulator.request('POST', '/faults', { dorp: A })).status, 400);
  assert.equal((await simulator.request('POST', '/faults', { nackSends: 'often' })).status, 400);
  assert.equal((await simulator.request('POST', '/faults', { proxyDown: 1 })).status, 404);
});
