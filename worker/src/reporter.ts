/** Delivers events to the control plane: signed, numbered, strictly in order, one at a time, until they are accepted. */
import type { Api } from './api.ts'
import { retryPauseMs, sleep } from './clock.ts'
import { errorText, type Log } from './log.ts'
import type { Spool } from './spool.ts'
import type { SpoolEntry } from './spoolSegment.ts'

export type EventType =
  | 'QR_CODE'
  | 'PAIRING_CODE'
  | 'CONNECTED'
  | 'DISCONNECTED'
  | 'PROXY_ERROR'
  | 'AUTH_FAILURE'
  | 'PING'
  | 'MESSAGE_STATUS'
  | 'MESSAGE_RECEIVED'
  | 'MEDIA_READY'
  | 'MEDIA_FAILED'
  | 'MESSAGE_SENT'
  | 'MESSAGE_FAILED'
  | 'COMMAND_RESULT'

export type EventData = Readonly<Record<string, unknown>>

const EVENT_TIMEOUT_MS = 15_000
const PING_TIMEOUT_MS = 10_000
const PAUSE_BASE_MS = 500
const PAUSE_MAX_MS = 30_000

type Outcome = 'accepted' | 'session_gone' | 'never' | 'again'

export const outcomeOf = (status: number): Outcome => {
  if (status >= 200 && status < 300) return 'accepted'
  if (status === 404 || status === 410) return 'session_gone'
  if (status === 401 || status === 408 || status === 429) return 'again'
  return status >= 400 && status < 500 ? 'never' : 'again'
}

export class Reporter {
  readonly #api: Api
  readonly #spool: Spool
  readonly #sessionId: string
  readonly #log: Log
  readonly #stop = new AbortController()
  #pinging = false

  constructor(options: { api: Api; spool: Spool; sessionId: string; log: Log }) {
    this.#api = options.api
    this.#spool = options.spool
    this.#sessionId = options.sessionId
    this.#log = options.log
  }

  get spooled(): number {
    return this.#spool.pending
  }

  /** Resolves when the event is on disk; it never gets lost after that. */
  emit(type: EventType, data: EventData): Promise<void> {
    const timestamp = Date.now()
    return this.#spool.append(type, (seq, stream) =>
      JSON.stringify({ sessionId: this.#sessionId, type, timestamp, seq, stream, data }),
    )
  }

  /** Not kept, not repeated, may overtake; one at a time, so that a slow control plane is not flooded. */
  async ping(data: EventData): Promise<void> {
    if (this.#pinging) return
    this.#pinging = true
    try {
      const body = { sessionId: this.#sessionId, type: 'PING', timestamp: Date.now(), data }
      await this.#api.postEvent(JSON.stringify(body), PING_TIMEOUT_MS)
    } catch (error) {
      this.#log.debug('ping_failed', { error: errorText(error) })
    } finally {
      this.#pinging = false
    }
  }

  async run(): Promise<void> {
    let failures = 0
    while (!this.#stop.signal.aborted) {
      // Asked for before looking, so that an event added in between still wakes us.
      const changed = this.#spool.changed()
      const entry = this.#spool.peek()
      if (entry === undefined) {
        await changed
        continue
      }
      if (await this.#deliver(entry)) failures = 0
      else await sleep(retryPauseMs(++failures, PAUSE_BASE_MS, PAUSE_MAX_MS), this.#stop.signal)
    }
  }

  /** Waits until everything is delivered, at most `ms`; then stops. What is left stays on disk for the next start. */
  async stop(ms: number): Promise<void> {
    const until = Date.now() + ms
    while (this.#spool.pending > 0 && Date.now() < until) await sleep(20)
    this.#stop.abort()
    this.#spool.wake()
  }

  async #deliver(entry: SpoolEntry): Promise<boolean> {
    try {
      const { status } = await this.#api.postEvent(entry.body, EVENT_TIMEOUT_MS)
      const outcome = outcomeOf(status)
      if (outcome === 'again') {
        this.#log.warn('event_not_accepted', { type: entry.type, seq: entry.seq, status })
        return false
      }
      if (outcome === 'never') this.#log.error('event_dropped', { type: entry.type, seq: entry.seq, status })
      this.#spool.acknowledge(entry.seq)
      return true
    } catch (error) {
      this.#log.debug('event_not_delivered', { type: entry.type, seq: entry.seq, error: errorText(error) })
      return false
    }
  }
}
