/** Starts the simulator as a real process and talks to its control API. */
import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Ready } from '../src/simulator.ts';

/** The bundle that is shipped; `npm test` builds it first. */
export const MAIN = fileURLToPath(new URL('../dist/simulator.mjs', import.meta.url));

export const waitUntil = async <T>(what: string, check: () => T | Promise<T>, timeoutMs = 5_000): Promise<NonNullable<T>> => {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const result = await check();
    if (result) return result as NonNullable<T>;
    if (Date.now() > deadline) throw new Error(`waited ${timeoutMs} ms in vain: ${what}`);
    await new Promise(resolve => setTimeout(resolve, 10));
  }
};

export interface Entry {
  id: string;
  from: string;
  text: string | null;
  kind: string;
  copies: number;
  retries: number;
  fromMe?: boolean;
  quotedId?: string;
  caption?: string;
  media?: { mimetype: string; size: number; sha256: string; error?: string };
  location?: { latitude: number; longitude: number; name?: string };
  contacts?: { name: string; vcard: string }[];
  poll?: { question: string; options: string[]; selectable: number };
  reaction?: { emoji: string; targetId: string };
  mentions?: string[];
}

export class SimulatorProcess {
  readonly state = mkdtempSync(join(tmpdir(), 'simulator-test-'));
  ready!: Ready;
  private child: ChildProcess | undefined;

  constructor(private readonly args: string[] = []) {}

  async start(): Promise<this> {
    const readyFile = join(this.state, 'ready.json');
    rmSync(readyFile, { force: true });
    const logFile = join(this.state, 'log.jsonl');
    const child = spawn(
      process.execPath,
      [MAIN, '--state', this.state, '--ready-file', readyFile, '--log-file', logFile, '--proxies', '2', ...this.args],
      { stdio: ['ignore', 'ignore', 'inherit'] }
    );
    this.child = child;
    await waitUntil(
      'simulator is ready',
      () => {
        if (child.exitCode !== null) throw new Error(`simulator ended with ${child.exitCode}`);
        return existsSync(readyFile);
      },
      15_000
    );
    this.ready = JSON.parse(readFileSync(readyFile, 'utf8')) as Ready;
    return this;
  }

  get ca(): string {
    return readFileSync(this.ready.caFile, 'utf8');
  }

  private async end(signal: NodeJS.Signals): Promise<number | null> {
    const { child } = this;
    if (!child || child.exitCode !== null || child.signalCode !== null) return child?.exitCode ?? null;
    const ended = new Promise<number | null>(resolve => child.once('exit', resolve));
    child.kill(signal);
    return ended;
  }

  kill(): Promise<number | null> {
    return this.end('SIGKILL');
  }

  terminate(): Promise<number | null> {
    return this.end('SIGTERM');
  }

  async dispose(): Promise<void> {
    await this.terminate();
    rmSync(this.state, { recursive: true, force: true });
  }

  async request<T>(method: string, path: string, body?: object): Promise<{ status: number; body: T }> {
    const response = await fetch(this.ready.url + path, { method, ...(body ? { body: JSON.stringify(body) } : {}) });
    const type = response.headers.get('content-type') ?? '';
    return { status: response.status, body: (type.includes('json') ? await response.json() : await response.text()) as T };
  }

  async post<T = Record<string, unknown>>(path: string, body: object): Promise<T> {
    const { status, body: answer } = await this.request<T>('POST', path, body);
    if (status !== 200) throw new Error(`POST ${path}: ${status} ${JSON.stringify(answer)}`);
    return answer;
  }

  async get<T>(path: string): Promise<T> {
    const { status, body } = await this.request<T>('GET', path);
    if (status !== 200) throw new Error(`GET ${path}: ${status} ${JSON.stringify(body)}`);
    return body;
  }

  inbox(phone: string): Promise<Entry[]> {
    return this.get<Entry[]>(`/phones/${phone}/inbox`);
  }

  fault(body: object): Promise<Record<string, unknown>> {
    return this.post('/faults', body);
  }
}
