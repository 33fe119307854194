/** The proxies that the simulator offers, each with its own port, password and exit address. */
import { join } from 'node:path';
import { notFound } from '../errors.ts';
import type { Ports } from '../ports.ts';
import { findMicrosocks } from './microsocks.ts';
import { Proxy } from './proxy.ts';

export type SocksKind = 'auto' | 'microsocks' | 'builtin';

export interface PoolOptions {
  count: number;
  kind: SocksKind;
  host: string;
  stateDir: string;
}

/** 127.0.1.1, 127.0.1.2 …: the whole of 127/8 is loopback, so each proxy can have an address of its own. */
const exitAddress = (index: number): string => `127.0.${1 + Math.floor(index / 250)}.${1 + (index % 250)}`;

const programFor = (kind: SocksKind): string | undefined => {
  if (kind === 'builtin') return undefined;
  const program = findMicrosocks();
  if (!program && kind === 'microsocks') throw new Error('--socks microsocks: no microsocks on PATH');
  return program;
};

export class ProxyPool {
  private constructor(readonly proxies: Proxy[]) {}

  static async start(options: PoolOptions, ports: Ports): Promise<ProxyPool> {
    const microsocks = programFor(options.kind);
    const proxies: Proxy[] = [];
    for (let index = 0; index < options.count; index++) {
      const number = index + 1;
      proxies.push(
        new Proxy({
          host: options.host,
          port: await ports.reserve(`proxy${number}`, options.host),
          user: `user${number}`,
          password: `pass${number}`,
          exitAddress: exitAddress(index),
          microsocks,
          pidFile: join(options.stateDir, `proxy${number}.pid`)
        })
      );
    }
    await Promise.all(proxies.map(proxy => proxy.start()));
    return new ProxyPool(proxies);
  }

  byPort(port: number): Proxy {
    const proxy = this.proxies.find(candidate => candidate.options.port === port);
    if (!proxy) throw notFound(`no proxy on port ${port}`, 'NO_SUCH_PROXY');
    return proxy;
  }

  async clearFaults(): Promise<void> {
    await Promise.all(
      this.proxies.map(async proxy => {
        if (proxy.fault) await proxy.setFault(null);
        await proxy.start();
      })
    );
  }

  async stop(): Promise<void> {
    await Promise.all(this.proxies.map(proxy => proxy.stop()));
  }
}
