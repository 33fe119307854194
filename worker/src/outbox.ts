/** The loop that asks the control plane for work, always: messages while connected, commands at any time. */
import type { Api } from './api.ts'
import { retryPauseMs, sleep } from './clock.ts'
import type { Connection } from './connection.ts'
import { errorText, maskJid, type Log } from './log.ts'
import { SendFailure, type ClaimAnswer, type Command, type OutboxMessage } from './protocol.ts'
import { LeaseExpired, type Sender } from './sender.ts'

export interface OutboxOptions {
  readonly api: Api
  readonly connection: Connection
  readonly sender: Sender
  readonly runCommand: (command: Command) => void
  readonly waitMs: number
  readonly log: Log
}

/** Beyond the long poll itself. */
const ANSWER_MARGIN_MS = 10_000
const SETTLE_TIMEOUT_MS = 15_000
const PAUSE_BASE_MS = 500
const PAUSE_MAX_MS = 30_000
/** Messages go one by one, and each is claimed only when it can go: a claimed one in a queue would lose its lease. */
const CLAIM_AT_ONCE = 1

export class Outbox {
  readonly #options: OutboxOptions
  readonly #stop = new AbortController()
  #working: Promise<void> = Promise.resolve()
  /** Whether the control plane knows what we have in hand. Not at first (an earlier run may have died with a message), nor after a claim whose answer was lost. */
  #handsKnown = false

  constructor(options: OutboxOptions) {
    this.#options = options
  }

  async run(): Promise<void> {
    let failures = 0
    while (!this.#stop.signal.aborted) {
      const answer = await this.#claim()
      if (answer === 'failed') {
        await sleep(retryPauseMs(++failures, PAUSE_BASE_MS, PAUSE_MAX_MS), this.#stop.signal)
        continue
      }
      failures = 0
      if (answer === 'interrupted') continue
      answer.commands.forEach(this.#options.runCommand)
      this.#working = this.#work(answer.messages)
      await this.#working
    }
  }

  /** No more claims; the message in hand is finished. */
  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#working
  }

  /** A poll without messages is cut short when the connection opens: nothing is lost with it, and sending starts at once. */
  async #claim(): Promise<ClaimAnswer | 'failed' | 'interrupted'> {
    const { api, connection, waitMs, log } = this.#options
    const openNow = (): boolean => connection.state === 'open'
    const isOpen = openNow()
    const interrupt = new AbortController()
    const stopped = (): void => interrupt.abort()
    this.#stop.signal.addEventListener('abort', stopped)
    const off = connection.onChange(() => {
      if (!isOpen && openNow()) interrupt.abort()
    })
    try {
      const answer = await api.post(
        '/outbox/claim',
        {
          max: isOpen ? CLAIM_AT_ONCE : 0,
          waitMs,
          connection: connection.state,
          ...(isOpen && !this.#handsKnown ? { emptyHanded: true } : {}),
        },
        { timeoutMs: waitMs + ANSWER_MARGIN_MS, signal: interrupt.signal },
      )
      if (answer.status !== 200) {
        log.warn('claim_refused', { status: answer.status })
        return 'failed'
      }
      const claimed = parseClaim(answer.body)
      if (isOpen) this.#handsKnown = true
      return claimed
    } catch (error) {
      this.#handsKnown = false
      if (interrupt.signal.aborted) return 'interrupted'
      log.debug('claim_failed', { error: errorText(error) })
      return 'failed'
    } finally {
      off()
      this.#stop.signal.removeEventListener('abort', stopped)
    }
  }

  async #work(messages: readonly OutboxMessage[]): Promise<void> {
    for (const message of messages) {
      if (this.#stop.signal.aborted) return
      // A message that breaks the contract must not take the session down with it.
      await this.#handle(message).catch((error: unknown) => {
        this.#options.log.error('message_broken', { error: errorText(error) })
      })
    }
  }

  async #handle(message: OutboxMessage): Promise<void> {
    const { sender, log } = this.#options
    const { messageId, waMessageId, lease } = message
    const fields = { message_id: messageId, wa_message_id: waMessageId, to: maskJid(message.to) }
    try {
      const { sentAt, repeated } = await sender.send(message)
      log.info('message_sent', { ...fields, repeated })
      await this.#settle('/outbox/ack', { messageId, token: lease.token, waMessageId, sentAt, repeated })
    } catch (error) {
      if (error instanceof LeaseExpired) return log.warn('lease_expired', fields)
      const failure = error instanceof SendFailure ? error : new SendFailure('INTERNAL', errorText(error), { retryable: true })
      log.warn('message_not_sent', { ...fields, code: failure.code, retryable: failure.retryable })
      await this.#settle('/outbox/nack', {
        messageId,
        token: lease.token,
        error: { code: failure.code, message: failure.message },
        retryable: failure.retryable,
        ...(failure.retryAfterMs === undefined ? {} : { retryAfterMs: failure.retryAfterMs }),
      })
    }
  }

  /** Until it is answered or we are stopped; the ledger covers what was not told. */
  async #settle(path: string, body: object): Promise<void> {
    for (let failures = 1; ; failures++) {
      try {
        const { status } = await this.#options.api.post(path, body, { timeoutMs: SETTLE_TIMEOUT_MS })
        if (status < 400) return
        const final = status < 500 && status !== 401 && status !== 408 && status !== 429
        this.#options.log.warn('settle_refused', { path, status })
        if (final) return
      } catch (error) {
        this.#options.log.debug('settle_failed', { path, error: errorText(error) })
      }
      if (this.#stop.signal.aborted) return
      await sleep(retryPauseMs(failures, PAUSE_BASE_MS, PAUSE_MAX_MS), this.#stop.signal)
    }
  }
}

const parseClaim = (body: Buffer): ClaimAnswer => {
  const value = JSON.parse(body.toString('utf8')) as Partial<ClaimAnswer>
  return { messages: value.messages ?? [], commands: value.commands ?? [] }
}
