/** Runs the bundled worker as a real process. */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { SECRET, type ControlPlane } from './controlPlane.ts'
import type { Simulator } from './simulator.ts'

const path = (name: string): string => fileURLToPath(new URL(`../../${name}`, import.meta.url))

const changedAt = (file: string): number => {
  try {
    return statSync(file).mtimeMs
  } catch {
    return 0
  }
}

/** The bundle is what runs in the field, so it is what is tested; made anew when a source is younger. */
export const buildIfStale = (): void => {
  const newest = Math.max(changedAt(path('build.mjs')), ...readdirSync(path('src')).map(name => changedAt(path(`src/${name}`))))
  if (changedAt(path('dist/worker.mjs')) < newest) execFileSync(process.execPath, [path('build.mjs')], { stdio: 'inherit' })
}

interface Flags {
  nodeFlags: string[]
  env: Record<string, string>
}

export const bundle = path('dist/worker.mjs')
export const readFlags = (): Flags => JSON.parse(readFileSync(path('dist/worker.flags.json'), 'utf8')) as Flags

export interface WorkerOptions {
  readonly sessionId: string
  readonly sessionsDir: string
  readonly plane: ControlPlane
  readonly simulator: Simulator
  readonly proxy?: string
  readonly env?: Record<string, string>
}

export class WorkerProcess {
  readonly child: ChildProcess
  readonly exited: Promise<number | null>
  stderr = ''

  constructor(options: WorkerOptions) {
    buildIfStale()
    const flags = readFlags()
    const { ready } = options.simulator
    this.child = spawn(process.execPath, [...flags.nodeFlags, bundle], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: process.env['PATH'] ?? '',
        ...flags.env,
        SESSION_ID: options.sessionId,
        SESSIONS_DIR: options.sessionsDir,
        PROXY_URL: options.proxy ?? ready.proxies[0] ?? '',
        WEBHOOK_URL: options.plane.url,
        WEBHOOK_SECRET: SECRET,
        WA_WEBSOCKET_URL: ready.websocketUrl,
        WA_ROOT_PUBLIC_KEY: ready.rootPublicKey,
        NODE_EXTRA_CA_CERTS: ready.caFile,
        PING_INTERVAL_MS: '500',
        RECONNECT_BASE_MS: '200',
        RECONNECT_MAX_MS: '1000',
        LOG_LEVEL: 'debug',
        ...options.env,
      },
    })
    const collect = (chunk: Buffer): void => {
      this.stderr += chunk.toString('utf8')
    }
    this.child.stderr?.on('data', collect)
    this.child.stdout?.on('data', collect)
    this.exited = new Promise(resolve => this.child.once('exit', code => resolve(code)))
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<number | null> {
    this.child.kill(signal)
    return this.exited
  }
}
