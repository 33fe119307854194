import { Client } from './client.ts';
import { SimulatorProcess, waitUntil } from './process.ts';
import { readFileSync } from 'node:fs';
const N = Number(process.argv[2]), M = Number(process.argv[3]);
const say = (...a: unknown[]) => process.stdout.write(a.join(' ') + '\n');
const sim = await new SimulatorProcess().start();
const cpu = () => { const f = readFileSync(`/proc/${sim.ready.pid}/stat`, 'utf8').split(' '); return (Number(f[13]) + Number(f[14])) * 10; };
const stats = () => sim.get<{ rssBytes: number; connected: number; messages: { accepted: number } }>('/stats');
const rss = async () => Math.round((await stats()).rssBytes / 1e6);
say('idle rss', await rss());
const clients: Client[] = [];
let t = Date.now(); let c = cpu();
const times: number[] = [];
for (let i = 0; i < N; i += 4) {
  await Promise.all(Array.from({ length: Math.min(4, N - i) }, async (_, k) => {
    const s = Date.now();
    const cl = await new Client(sim).pair(String(972510000000 + i + k)); times.push(Date.now() - s); clients.push(cl);
  }));
}
times.sort((x, y) => x - y);
say('paired', N, 'ms', Date.now() - t, 'sim cpu ms', cpu() - c, 'pair median', times[times.length >> 1], 'rss', await rss(), 'connected', (await stats()).connected);
const targets = Array.from({ length: 20 }, (_, k) => String(972520000000 + k));
for (const p of targets) await sim.post('/phones', { phone: p });
t = Date.now(); c = cpu();
await Promise.all(clients.map(async (cl, i) => { for (let m = 0; m < M; m++) await cl.send(targets[(i + m) % 20]!, `m ${i} ${m}`); }));
await waitUntil('acks', () => clients.reduce((n, cl) => n + cl.acks.length, 0) >= N * M, 60000);
say('sent', N * M, 'ms', Date.now() - t, 'sim cpu ms', cpu() - c, 'per msg cpu ms', ((cpu() - c) / N / M).toFixed(2));
let got = 0; for (const p of targets) got += (await sim.inbox(p)).length;
say('in inboxes', got, 'rss', await rss(), 'journal', readFileSync(sim.state + '/journal.jsonl').length);
t = Date.now(); c = cpu();
await Promise.all(clients.map(async (cl, i) => { for (let m = 0; m < M; m++) await cl.send(targets[(i + m) % 20]!, `x ${i} ${m}`); }));
await waitUntil('acks', () => clients.reduce((n, cl) => n + cl.acks.length, 0) >= 2 * N * M, 60000);
say('warm: sent', N * M, 'ms', Date.now() - t, 'sim cpu ms', cpu() - c, 'per msg cpu ms', ((cpu() - c) / N / M).toFixed(2));
await sim.kill(); t = Date.now(); await sim.start(); say('restart ms', Date.now() - t, 'rss', await rss());
c = cpu(); t = Date.now();
await Promise.all(clients.map(async cl => { await cl.closed(); await cl.connect(); await waitUntil('open', () => cl.state === 'open', 60000); }));
say('relogin all ms', Date.now() - t, 'sim cpu', cpu() - c, 'rss', await rss());
c = cpu(); await new Promise(r => setTimeout(r, 3000)); say('idle cpu ms in 3 s', cpu() - c);
await sim.dispose(); process.exit(0);
