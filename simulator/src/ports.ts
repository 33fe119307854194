/** Ports are chosen once and kept in the state folder, so that a restart is found where it was. */
import { existsSync, readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { randomInt } from 'node:crypto';
import { join } from 'node:path';
import { writeAtomically } from './crypto/serverKeys.ts';

/** Below the range that systems use for outgoing connections, which could otherwise sit on a port while we are down. */
const FIRST_PORT = 17_000;
const LAST_PORT = 31_999;
const BIND_ATTEMPTS = 50;
/** An old process may need a moment to let go of its ports. */
const REBIND_TIMEOUT_MS = 5_000;

export const listen = (server: Server, port: number, host: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const failed = (error: Error) => reject(error);
    server.once('error', failed);
    server.listen(port, host, () => {
      server.off('error', failed);
      const address = server.address();
      resolve(typeof address === 'object' && address ? address.port : port);
    });
  });

const isInUse = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'EADDRINUSE';

const pause = (ms: number) => new Promise(resolve => setTimeout(resolve, ms));

/** Listens on a given port, waiting a few seconds for it to become free. */
export const listenPatiently = async (server: Server, port: number, host: string): Promise<void> => {
  const deadline = Date.now() + REBIND_TIMEOUT_MS;
  for (;;) {
    try {
      await listen(server, port, host);
      return;
    } catch (error) {
      if (!isInUse(error) || Date.now() > deadline) throw error;
      await pause(100);
    }
  }
};

export class Ports {
  private readonly file: string;
  private readonly known: Record<string, number>;

  constructor(stateDir: string) {
    this.file = join(stateDir, 'ports.json');
    this.known = existsSync(this.file) ? (JSON.parse(readFileSync(this.file, 'utf8')) as Record<string, number>) : {};
  }

  /** Binds the server to the wished port, else to the one it had before, else to a new one. */
  async bind(name: string, server: Server, host: string, wished = 0): Promise<number> {
    const fixed = wished || this.known[name];
    if (fixed) {
      await listenPatiently(server, fixed, host);
      return this.remember(name, fixed);
    }
    for (let attempt = 0; ; attempt++) {
      const port = randomInt(FIRST_PORT, LAST_PORT + 1);
      try {
        await listen(server, port, host);
        return this.remember(name, port);
      } catch (error) {
        if (!isInUse(error) || attempt >= BIND_ATTEMPTS) throw error;
      }
    }
  }

  /** A port for a server that is not ours to bind: found free now, kept for later starts. */
  async reserve(name: string, host: string): Promise<number> {
    const known = this.known[name];
    if (known) return known;
    const probe = createServer();
    const port = await this.bind(name, probe, host);
    await new Promise(resolve => probe.close(resolve));
    return port;
  }

  private remember(name: string, port: number): number {
    if (this.known[name] !== port) {
      this.known[name] = port;
      writeAtomically(this.file, JSON.stringify(this.known));
    }
    return port;
  }
}
