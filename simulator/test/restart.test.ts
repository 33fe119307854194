/** Killed at any moment, the simulator comes back with everything it had promised. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';
import { downloadMediaMessage } from 'baileys';
import { Client } from './client.ts';
import { SimulatorProcess, waitUntil } from './process.ts';

const A = '972500000501';
const B = '972500000502';
const C = '972500000503';
const simulator = new SimulatorProcess();
let a: Client;
let b: Client;

before(async () => {
  await simulator.start();
  await simulator.post('/phones', { phone: C });
  [a, b] = await Promise.all([new Client(simulator).pair(A), new Client(simulator).pair(B)]);
});
after(async () => {
  await Promise.all([a, b].map(client => client?.close()));
  await simulator.dispose();
});

test('after kill -9 ports, keys, logins, inboxes, waiting messages and media are as before', async () => {
  const before = simulator.ready;
  const seen = await a.send(C, 'before the kill');
  await a.ack(seen);
  await b.close();
  const waiting = await a.send(B, 'waits through the kill');
  await a.ack(waiting);
  const image = randomBytes(10_000);
  await simulator.post(`/phones/${C}/send`, { to: B, image: { base64: image.toString('base64') } });

  await simulator.kill();
  assert.equal(await a.closed(), 428);
  await simulator.start();

  assert.notEqual(simulator.ready.pid, before.pid);
  assert.deepEqual({ ...simulator.ready, pid: 0 }, { ...before, pid: 0 });

  await Promise.all([a.connect().opened(), b.connect().opened()]);
  assert.deepEqual([a.qrs.length, b.qrs.length], [1, 1]);
  await b.text('waits through the kill');
  const entry = (await simulator.inbox(C)).find(({ id }) => id === seen);
  assert.deepEqual([entry?.text, entry?.copies], ['before the kill', 1]);
  const { message } = await waitUntil('image', () => b.messages.find(({ message: m }) => m.message?.imageMessage));
  assert.ok(image.equals(await downloadMediaMessage(message, 'buffer', { options: b.downloadOptions() })));

  // The Signal sessions go on where they were: no retry is needed.
  const next = await a.send(C, 'after the kill');
  await waitUntil('in the inbox', async () => (await simulator.inbox(C)).some(({ id, text }) => id === next && text === 'after the kill'));
  await simulator.post(`/phones/${C}/send`, { to: A, text: 'and back' });
  await a.text('and back');
});

test('whatever was acknowledged is there after kills in the middle of sending', async () => {
  const acknowledged: string[] = [];
  for (let round = 0; round < 3; round++) {
    const acksBefore = a.acks.length;
    const sending = Promise.allSettled(Array.from({ length: 30 }, (_, n) => a.send(C, `round ${round}, ${n}`)));
    await waitUntil('some acks', () => a.acks.length >= acksBefore + 3 + 7 * round);
    await simulator.kill();
    await a.closed();
    await sending;
    acknowledged.splice(0, acknowledged.length, ...a.acks.map(({ id }) => id));
    await simulator.start();
    await a.connect().opened();
  }
  const inbox = new Map((await simulator.inbox(C)).map(entry => [entry.id, entry]));
  const toB = new Set((await simulator.inbox(B)).map(entry => entry.id));
  const missing = acknowledged.filter(id => !inbox.get(id)?.text && !toB.has(id));
  assert.deepEqual(missing, []);
});

test('SIGTERM ends it with 0 within two seconds', async () => {
  const start = Date.now();
  assert.equal(await simulator.terminate(), 0);
  assert.ok(Date.now() - start < 2_000);
  await simulator.start();
});
