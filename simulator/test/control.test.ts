/** The control API as others see it. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { SimulatorProcess } from './process.ts';

const simulator = new SimulatorProcess();
before(() => simulator.start());
after(() => simulator.dispose());

interface Failure {
  error: { code: string; message: string };
}

test('creating a phone twice gives the same phone', async () => {
  const first = await simulator.post<{ lid: string }>('/phones', { phone: '+972500000701' });
  const second = await simulator.post<{ lid: string }>('/phones', { phone: '972500000701' });
  assert.equal(first.lid, second.lid);
  assert.equal((await simulator.get<object[]>('/phones')).length, 1);
});

test('what cannot be done is refused with a code and a sentence', async () => {
  const cases: [string, string, object | undefined, number, string][] = [
    ['GET', '/nothing', undefined, 404, 'NOT_FOUND'],
    ['POST', '/phones', {}, 400, 'BAD_REQUEST'],
    ['POST', '/phones', { phone: 'abc' }, 400, 'BAD_PHONE'],
    ['POST', '/phones', { phone: '972500000701', autoReceipt: 'maybe' }, 400, 'BAD_REQUEST'],
    ['GET', '/phones/972500000999/inbox', undefined, 404, 'NO_SUCH_PHONE'],
    ['POST', '/phones/972500000701/send', { to: '972500000999', text: 'x' }, 400, 'NOT_ON_WHATSAPP'],
    ['POST', '/phones/972500000701/send', { to: '972500000701' }, 400, 'BAD_REQUEST'],
    ['POST', '/phones/972500000701/send', { to: '972500000701', image: {} }, 400, 'BAD_REQUEST'],
    ['POST', '/phones/972500000701/read', { id: 'none' }, 400, 'NO_SUCH_MESSAGE'],
    ['POST', '/phones/972500000701/unlink', { device: 4 }, 404, 'NO_SUCH_DEVICE'],
    ['POST', '/phones/972500000701/pair-code', { code: '123' }, 400, 'BAD_CODE']
  ];
  for (const [method, path, body, status, code] of cases) {
    const answer = await simulator.request<Failure>(method, path, body);
    assert.deepEqual([answer.status, answer.body.error?.code], [status, code], `${method} ${path}`);
    assert.ok(answer.body.error.message.length > 5);
  }
});

test('two phones talk to each other without any device', async () => {
  await simulator.post('/phones', { phone: '972500000702' });
  const { id } = await simulator.post<{ id: string }>('/phones/972500000701/send', { to: '972500000702', text: 'hello' });
  const [entry] = await simulator.inbox('972500000702');
  assert.deepEqual([entry?.id, entry?.text, entry?.copies], [id, 'hello', 1]);
  const [sent] = await simulator.get<{ status: string }[]>('/phones/972500000701/sent');
  assert.equal(sent?.status, 'delivered');
});

test('help, health and stats answer', async () => {
  assert.match(await simulator.get<string>('/'), /POST \/phones\/\{p\}\/scan/);
  assert.equal((await simulator.get<{ status: string }>('/health')).status, 'ok');
  const stats = await simulator.get<{ messages: { accepted: number }; proxies: object[]; connected: number }>('/stats');
  assert.deepEqual([stats.messages.accepted, stats.proxies.length, stats.connected], [1, 2, 0]);
  assert.deepEqual((await simulator.get<{ proxies: object[] }>('/faults')).proxies.length, 2);
});
