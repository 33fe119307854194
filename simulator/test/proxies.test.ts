/** The SOCKS proxies: names resolved by the proxy, own exit address, faults, up and down. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { SocksProxyAgent } from 'socks-proxy-agent';
import { Client } from './client.ts';
import { MAIN, SimulatorProcess, waitUntil } from './process.ts';
import { findMicrosocks } from '../src/proxies/microsocks.ts';

interface ProxyStats {
  port: number;
  kind: string;
  connections: number;
  exitAddress: string;
  hosts: { host: string; port: number; atyp: string }[];
}
interface StatsAnswer {
  proxies: ProxyStats[];
  devices: { phone: string; remoteAddress: string }[];
}

const throughProxy = (simulator: SimulatorProcess, url: string): Client => {
  // The agent speaks SOCKS to the proxy and TLS, with the simulator's CA, to the server behind it.
  const agent = new SocksProxyAgent(url, { timeout: 1_500 });
  const connect = agent.connect.bind(agent);
  agent.connect = (request, options) => connect(request, { ...options, ca: simulator.ca } as typeof options);
  return new Client(simulator, { agent });
};

const suite = (kind: 'builtin' | 'microsocks', phone: string) =>
  describe(kind, { skip: kind === 'microsocks' && !findMicrosocks() }, () => {
    const simulator = new SimulatorProcess(['--socks', kind]);
    let client: Client;
    let url = '';
    let port = 0;
    before(async () => {
      await simulator.start();
      url = simulator.ready.proxies[0] ?? '';
      port = Number(new URL(url).port);
    });
    after(async () => {
      await client?.close();
      await simulator.dispose();
    });
    const stats = () => simulator.get<StatsAnswer>('/stats');

    test('a client pairs through it by name and is seen with its exit address', async () => {
      client = await throughProxy(simulator, url).pair(phone);
      const { proxies, devices } = await stats();
      const wsPort = Number(new URL(simulator.ready.websocketUrl).port);
      assert.equal(proxies[0]?.kind, kind);
      assert.deepEqual(proxies[0]?.hosts.at(-1), { host: 'localhost', port: wsPort, atyp: 'domain' });
      assert.ok((proxies[0]?.connections ?? 0) >= 2);
      assert.equal(devices.find(device => device.phone === phone)?.remoteAddress, '127.0.1.1');
    });

    test('taken down it cuts its clients and refuses, brought up it serves on the same port', async () => {
      await simulator.fault({ proxyDown: port });
      assert.equal(await client.closed(), 428);
      client.connect();
      await client.closed();
      assert.match(client.closeReason, /ECONNREFUSED/);
      await simulator.fault({ proxyUp: port });
      await client.connect().opened();
    });

    const failures: [string, RegExp][] = [
      ['auth', /Authentication failed/],
      ['hang', /timed out/],
      ['refuse', /NotAllowed/],
      ['drop', /Socket closed/],
      ['target-refused', /ConnectionRefused/]
    ];
    test('its faults are those of bad proxies', async () => {
      for (const [mode, reason] of failures) {
        await simulator.fault({ proxyFault: { port, mode } });
        await client.close();
        client.connect();
        await client.closed();
        assert.match(client.closeReason, reason, mode);
      }
      await simulator.fault({ proxyFault: { port, mode: null } });
      await client.connect().opened();
      assert.equal((await stats()).proxies[0]?.kind, kind);
    });

    test('a wrong password is refused', async () => {
      const stranger = throughProxy(simulator, url.replace('pass1', 'wrong')).connect();
      await stranger.closed();
      assert.match(stranger.closeReason, /Authentication failed/);
    });
  });

suite('builtin', '972500000401');
suite('microsocks', '972500000402');

test('a proxy runs alone and tells what was asked of it', async () => {
  const simulator = await new SimulatorProcess().start();
  const child = spawn(process.execPath, [MAIN, 'socks', '--port', '0', '--user', 'u', '--password', 'p']);
  const lines: Record<string, unknown>[] = [];
  createInterface({ input: child.stdout }).on('line', line => lines.push(JSON.parse(line) as Record<string, unknown>));
  const { port } = await waitUntil('port line', () => lines[0], 10_000);
  const client = throughProxy(simulator, `socks5h://u:p@127.0.0.1:${String(port)}`).connect();
  await waitUntil('QR', () => client.qrs[0]);
  assert.deepEqual([lines[1]?.host, lines[1]?.atyp], ['localhost', 'domain']);
  await client.close();
  const ended = new Promise(resolve => child.once('exit', resolve));
  child.kill('SIGTERM');
  assert.equal(await ended, 0);
  await simulator.dispose();
});
