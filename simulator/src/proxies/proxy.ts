/** One of the simulator's proxies: Debian's microsocks or the built-in server, on a port that never changes. */
import { Microsocks } from './microsocks.ts';
import { Socks5Server, type AskedHost } from './socks5.ts';
import type { ProxyFaultMode } from '../faults.ts';
import { listenPatiently } from '../ports.ts';

const KEPT_HOSTS = 20;

export interface ProxyOptions {
  host: string;
  port: number;
  user: string;
  password: string;
  exitAddress: string;
  microsocks: string | undefined;
  pidFile: string;
}

export class Proxy {
  connections = 0;
  readonly asked: AskedHost[] = [];
  fault: ProxyFaultMode | null = null;
  private running: Microsocks | Socks5Server | undefined;

  constructor(readonly options: ProxyOptions) {}

  get up(): boolean {
    return this.running !== undefined;
  }

  get kind(): 'microsocks' | 'builtin' {
    return this.running instanceof Microsocks ? 'microsocks' : 'builtin';
  }

  get url(): string {
    const { user, password, host, port } = this.options;
    return `socks5h://${user}:${password}@${host === '0.0.0.0' ? '127.0.0.1' : host}:${port}`;
  }

  async start(): Promise<void> {
    if (this.running) return;
    try {
      await this.run();
    } catch (error) {
      this.running = undefined;
      throw error;
    }
  }

  private async run(): Promise<void> {
    const { microsocks, host, port } = this.options;
    const onRequest = (asked: AskedHost) => {
      this.asked.push(asked);
      if (this.asked.length > KEPT_HOSTS) this.asked.shift();
    };
    const onConnection = () => void (this.connections += 1);
    // Only the built-in server can misbehave, so it stands in while a fault is set.
    if (microsocks && !this.fault) {
      const child = new Microsocks({ ...this.options, program: microsocks, onRequest, onConnection });
      this.running = child;
      await child.start();
      return;
    }
    const { user, password, exitAddress } = this.options;
    const server = new Socks5Server({ user, password, localAddress: exitAddress, onRequest, onConnection });
    server.fault = this.fault;
    this.running = server;
    await listenPatiently(server.server, port, host);
  }

  async stop(): Promise<void> {
    const { running } = this;
    this.running = undefined;
    await running?.close();
  }

  async setFault(mode: ProxyFaultMode | null): Promise<void> {
    this.fault = mode;
    if (this.running instanceof Socks5Server && !(this.options.microsocks && !mode)) {
      this.running.fault = mode;
      return;
    }
    if (!this.up) return;
    await this.stop();
    await this.start();
  }
}
