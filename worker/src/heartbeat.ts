/** Signs of life: PING to the control plane, presence and now and then a message to itself on WhatsApp. */
import { jidNormalizedUser } from 'baileys'
import type { Acks } from './acks.ts'
import type { Connection } from './connection.ts'
import { errorText, type Log } from './log.ts'
import type { Reporter } from './reporter.ts'
import type { Settings } from './settings.ts'

export interface HeartbeatOptions {
  readonly settings: Settings
  readonly connection: Connection
  readonly reporter: Reporter
  readonly acks: Acks
  readonly log: Log
}

const SELF_MESSAGE_LIFETIME_S = 86_400
const SELF_MESSAGE_TEXT = 'keep-alive'

export class Heartbeat {
  readonly #options: HeartbeatOptions
  #timers: NodeJS.Timeout[] = []

  constructor(options: HeartbeatOptions) {
    this.#options = options
  }

  start(): void {
    const { settings } = this.#options
    this.#every(settings.pingIntervalMs, () => this.ping())
    if (settings.keepAlive) {
      this.#every(settings.presenceIntervalMs, () => this.#showPresence())
      this.#every(settings.selfMessageIntervalMs, () => this.#writeToSelf())
    }
    if (settings.pingIntervalMs > 0) void this.ping()
  }

  stop(): void {
    this.#timers.forEach(clearInterval)
    this.#timers = []
  }

  async ping(): Promise<void> {
    const { connection, reporter, acks } = this.#options
    const { rss, heapUsed } = process.memoryUsage()
    const { lastReceivedAt } = connection
    await reporter.ping({
      timestamp: Date.now(),
      connection: connection.state,
      rssBytes: rss,
      heapUsedBytes: heapUsed,
      uptimeS: Math.round(process.uptime()),
      spooled: reporter.spooled,
      ...(lastReceivedAt === undefined ? {} : { lastReceivedAt }),
      unacked: acks.pending,
    })
  }

  #every(ms: number, act: () => Promise<void>): void {
    if (ms === 0) return
    const run = (): void => void act().catch(error => this.#options.log.debug('heartbeat_failed', { error: errorText(error) }))
    this.#timers.push(setInterval(run, ms))
  }

  async #showPresence(): Promise<void> {
    await this.#options.connection.socket?.sendPresenceUpdate('available')
  }

  async #writeToSelf(): Promise<void> {
    const sock = this.#options.connection.socket
    if (!sock?.user) return
    const me = jidNormalizedUser(sock.user.id)
    await sock.sendMessage(me, { text: SELF_MESSAGE_TEXT, linkPreview: null }, { ephemeralExpiration: SELF_MESSAGE_LIFETIME_S })
  }
}
