/** Keeps one WhatsApp connection alive: attempt after attempt, until it is parked or stopped. */
import { setTimeout as delay } from 'node:timers/promises'
import type { WASocket } from 'baileys'
import { Attempt, type AttemptEvents, type AttemptOptions } from './attempt.ts'
import { sleep } from './clock.ts'
import { backoffMs, deservesProbe, judge, withProxyError, type Verdict } from './disconnectPolicy.ts'
import { probeProxy } from './tunnel.ts'

export type ConnectionState = 'connecting' | 'open' | 'closed' | 'parked'

export interface ConnectionEvents extends Omit<AttemptEvents, 'onQr' | 'onOpen' | 'onFrame' | 'onPaired'> {
  onQr(qr: string, expiresInMs: number): void
  onOpen(sock: WASocket): void
  /** Awaited: what must be done about the end (reports, auth set aside) comes before the next attempt. */
  onClosed(verdict: Verdict, retryInMs: number | undefined): Promise<void>
}

export interface ConnectionOptions extends Omit<AttemptOptions, 'events'> {
  readonly events: ConnectionEvents
}

/** Baileys shows the first code of a connection for a minute and each further one for 20 s. */
const FIRST_QR_MS = 60_000
const NEXT_QR_MS = 20_000
/** A connection that stood this long was a good one: the next failure starts from the shortest pause. */
const STABLE_MS = 60_000
const PROBE_AGAIN_MS = 200
/** "Reconnect at once" is believed this often in a row; then the pauses apply, whatever the server says. */
const MAX_AT_ONCE = 5

export class NotConnected extends Error {
  constructor(message = 'not connected to WhatsApp') {
    super(message)
  }
}

export class Connection {
  readonly #options: ConnectionOptions
  readonly #stop = new AbortController()
  readonly #listeners = new Set<() => void>()
  #state: ConnectionState = 'closed'
  #attempt: Attempt | undefined
  #lastReceivedAt: number | undefined

  constructor(options: ConnectionOptions) {
    this.#options = options
  }

  get state(): ConnectionState {
    return this.#state
  }

  get lastReceivedAt(): number | undefined {
    return this.#lastReceivedAt
  }

  /** The socket while it is open. */
  get socket(): WASocket | undefined {
    return this.#state === 'open' ? this.#attempt?.sock : undefined
  }

  requireSocket(): WASocket {
    const sock = this.socket
    if (sock === undefined) throw new NotConnected()
    return sock
  }

  /** Calls back on every change of state; returns how to stop that. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Resolves to true once `test` holds, to false after `ms`. */
  async waitUntil(test: () => boolean, ms: number): Promise<boolean> {
    if (test()) return true
    const timer = new AbortController()
    return new Promise(resolve => {
      const check = (): void => {
        if (!test()) return
        off()
        timer.abort()
        resolve(true)
      }
      const off = this.onChange(check)
      delay(ms, undefined, { signal: timer.signal, ref: false }).then(
        () => {
          off()
          resolve(test())
        },
        () => undefined,
      )
    })
  }

  async run(): Promise<void> {
    let failures = 0
    let atOnce = 0
    while (!this.#stop.signal.aborted) {
      await this.#options.auth.dropHalfPairing()
      const startedAt = Date.now()
      const { cause, openMs } = await this.#tryOnce()
      if (this.#stop.signal.aborted) break
      const verdict = await this.#withProbe(judge(cause))
      if (verdict.next === 'park') {
        this.#change('parked')
        await this.#options.events.onClosed(verdict, undefined)
        return
      }
      if (openMs >= STABLE_MS) failures = 0
      atOnce = verdict.next === 'now' && Date.now() - startedAt < STABLE_MS ? atOnce + 1 : 0
      const immediate = verdict.next === 'now' && atOnce <= MAX_AT_ONCE
      const { reconnectBaseMs, reconnectMaxMs } = this.#options.settings
      const pause = immediate ? 0 : backoffMs(failures++, reconnectBaseMs, reconnectMaxMs, Math.random())
      await this.#options.events.onClosed(verdict, pause)
      await sleep(pause, this.#stop.signal)
    }
  }

  /** The code to type on the phone instead of scanning. Possible only while a QR code is being shown. */
  async requestPairingCode(phone: string, waitMs: number): Promise<string> {
    const showsQr = (): boolean => this.#state === 'connecting' && this.#attempt?.qrSeen === true
    await this.waitUntil(() => showsQr() || this.#state === 'open' || this.#state === 'parked', waitMs)
    const sock = this.#attempt?.sock
    if (!showsQr() || sock === undefined) {
      throw new NotConnected(this.#state === 'open' ? 'the session is paired already' : 'no connection to pair on')
    }
    return sock.requestPairingCode(phone)
  }

  /** Stops for good; an open connection is closed politely, within `ms`. */
  async stop(ms: number): Promise<void> {
    this.#stop.abort()
    const attempt = this.#attempt
    if (attempt) await Promise.race([attempt.leave(), delay(ms, undefined, { ref: false })])
  }

  #change(state: ConnectionState): void {
    if (this.#state === state) return
    this.#state = state
    this.#notify()
  }

  #notify(): void {
    for (const listener of [...this.#listeners]) listener()
  }

  async #tryOnce(): Promise<{ cause: unknown; openMs: number }> {
    const { events, ...rest } = this.#options
    let openedAt: number | undefined
    let qrShown = false
    this.#change('connecting')
    const attempt = new Attempt({
      ...rest,
      events: {
        ...events,
        onFrame: () => {
          this.#lastReceivedAt = Date.now()
        },
        onPaired: () => undefined,
        onQr: qr => {
          events.onQr(qr, qrShown ? NEXT_QR_MS : FIRST_QR_MS)
          qrShown = true
          this.#notify()
        },
        onOpen: () => {
          openedAt = Date.now()
          this.#change('open')
          events.onOpen(attempt.sock)
        },
      },
    })
    this.#attempt = attempt
    const cause = await attempt.closed
    this.#attempt = undefined
    this.#change('closed')
    return { cause, openMs: openedAt === undefined ? 0 : Date.now() - openedAt }
  }

  async #withProbe(verdict: Verdict): Promise<Verdict> {
    if (!deservesProbe(verdict)) return verdict
    const { proxy, proxyTimeoutMs } = this.#options.settings
    let proxyError = await probeProxy(proxy, proxyTimeoutMs)
    // One that is just ending cuts a knock off without a word; a moment later it is closed, and that is what it is.
    if (proxyError?.kind === 'protocol') {
      await sleep(PROBE_AGAIN_MS)
      proxyError = await probeProxy(proxy, proxyTimeoutMs)
    }
    return proxyError ? withProxyError(verdict, proxyError) : verdict
  }
}
