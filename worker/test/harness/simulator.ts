/** Starts the WhatsApp simulator as a process of its own and talks to its control API. */
import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { waitFor } from './wait.ts'

interface Ready {
  url: string
  websocketUrl: string
  rootPublicKey: string
  caFile: string
  mediaHost: string
  proxies: string[]
}

export interface InboxEntry {
  id: string
  from: string
  kind: string
  text?: string
  copies: number
  [more: string]: unknown
}

const source = fileURLToPath(new URL('../../../simulator/src/main.ts', import.meta.url))

export class Simulator {
  readonly ready: Ready
  readonly #process: ChildProcess

  private constructor(process: ChildProcess, ready: Ready) {
    this.#process = process
    this.ready = ready
  }

  static async start(folder: string): Promise<Simulator> {
    const readyFile = join(folder, 'simulator-ready.json')
    const args = ['--import', 'tsx', source, '--state', join(folder, 'simulator'), '--ready-file', readyFile]
    const log = ['--log-file', join(folder, 'simulator.log'), '--socks', 'builtin']
    const child = spawn(process.execPath, [...args, ...log], { stdio: ['ignore', 'ignore', 'inherit'] })
    await waitFor('the simulator', () => existsSync(readyFile) || child.exitCode !== null, 30_000)
    return new Simulator(child, JSON.parse(readFileSync(readyFile, 'utf8')) as Ready)
  }

  stop(): void {
    this.#process.kill('SIGTERM')
  }

  proxyPort(index: number): number {
    return Number(new URL((this.ready.proxies[index] ?? '').replace('socks5h', 'http')).port)
  }

  async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(this.ready.url + path, { method, ...(body === undefined ? {} : { body: JSON.stringify(body) }) })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
    return JSON.parse(text) as T
  }

  faults(body: Record<string, unknown>): Promise<unknown> {
    return this.call('POST', '/faults', body)
  }

  inbox(phone: string): Promise<InboxEntry[]> {
    return this.call('GET', `/phones/${phone}/inbox`)
  }

  arrived(phone: string, id: string): Promise<InboxEntry> {
    return waitFor(`message ${id} at ${phone}`, async () => (await this.inbox(phone)).find(entry => entry.id === id))
  }
}
