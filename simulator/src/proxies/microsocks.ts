/** Runs Debian's microsocks as a child and learns from its log which hosts were asked for. */
import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, isIP } from 'node:net';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';
import type { AskedHost } from './socks5.ts';

const START_TIMEOUT_MS = 3_000;

export const findMicrosocks = (): string | undefined =>
  (process.env.PATH ?? '')
    .split(delimiter)
    .map(folder => join(folder, 'microsocks'))
    .find(file => existsSync(file));

export interface MicrosocksOptions {
  program: string;
  host: string;
  port: number;
  user: string;
  password: string;
  exitAddress: string;
  /** Tells the next start which process to end if this one was killed. */
  pidFile: string;
  onRequest(asked: AskedHost): void;
  onConnection(): void;
}

const pause = (ms: number) => new Promise(resolve => setTimeout(resolve, ms));

const accepts = (host: string, port: number): Promise<boolean> =>
  new Promise(resolve => {
    const socket = connect({ host, port });
    const done = (result: boolean) => {
      socket.destroy();
      resolve(result);
    };
    socket.once('connect', () => done(true));
    socket.once('error', () => done(false));
  });

/** Empty for a process that is gone or, where nobody collects it, only waits to be. */
const commandLineOf = (pid: number): string[] => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').filter(Boolean);
  } catch {
    return [];
  }
};

/** Ends a child left over from a killed simulator, but only if that process really is our microsocks. */
const endLeftover = async ({ pidFile, port }: MicrosocksOptions): Promise<void> => {
  if (!existsSync(pidFile)) return;
  const pid = Number(readFileSync(pidFile, 'utf8'));
  rmSync(pidFile, { force: true });
  const parts = commandLineOf(pid);
  if (!parts[0]?.endsWith('microsocks') || !parts.includes(String(port))) return;
  process.kill(pid, 'SIGKILL');
  for (let waited = 0; waited < 50 && commandLineOf(pid).length; waited++) await pause(10);
};

export class Microsocks {
  private child: ChildProcess | undefined;

  constructor(private readonly options: MicrosocksOptions) {}

  async start(): Promise<void> {
    const { program, host, port, user, password, exitAddress, pidFile } = this.options;
    await endLeftover(this.options);
    const child = spawn(program, ['-i', host, '-p', String(port), '-u', user, '-P', password, '-b', exitAddress], {
      stdio: ['ignore', 'ignore', 'pipe']
    });
    this.child = child;
    let failure: Error | undefined;
    child.once('error', error => (failure = error));
    child.once('exit', code => (failure ??= new Error(`microsocks ended with ${code}`)));
    if (child.pid) writeFileSync(pidFile, String(child.pid));
    if (child.stderr) createInterface({ input: child.stderr }).on('line', line => this.onLog(line));
    const deadline = Date.now() + START_TIMEOUT_MS;
    while (!(await accepts(host, port))) {
      if (failure) throw failure;
      if (Date.now() > deadline) throw new Error(`microsocks does not listen on ${port}`);
      await pause(10);
    }
  }

  /** `client[4] 127.0.0.1: connected to localhost:7443` */
  private onLog(line: string): void {
    const match = /connected to (.+):(\d+)$/.exec(line);
    if (!match?.[1]) return;
    const host = match[1];
    const atyp = isIP(host) === 4 ? 'ipv4' : isIP(host) === 6 ? 'ipv6' : 'domain';
    this.options.onConnection();
    this.options.onRequest({ host, port: Number(match[2]), atyp });
  }

  async close(): Promise<void> {
    const { child } = this;
    this.child = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    // SIGKILL: the kernel then cuts its connections at once.
    const ended = new Promise(resolve => child.once('exit', resolve));
    child.kill('SIGKILL');
    await ended;
    rmSync(this.options.pidFile, { force: true });
  }
}
