/** Waits for WhatsApp's own acknowledgement of each message; nothing else proves that the server has it. */
import type { BinaryNode } from 'baileys'
import { SendFailure } from './protocol.ts'

export interface Ack {
  readonly waMessageId: string
  readonly at: number
  /** WhatsApp's error number when it refused the message. */
  readonly error?: string
}

/** WhatsApp says no time with a rate limit; a minute is the shortest pause that makes sense. */
const RATE_LIMIT_PAUSE_MS = 60_000

export const parseAck = (node: BinaryNode, now: number): Ack | undefined => {
  const { id, error } = node.attrs
  // Our own clock: WhatsApp's `t` has whole seconds and would lie before the claim.
  return id ? { waMessageId: id, at: now, ...(error ? { error } : {}) } : undefined
}

/** In the words of the seam. Whether to repeat a restricted message, and when, is the control plane's decision. */
export const failureOf = (error: string): SendFailure => {
  switch (error) {
    case '463':
      return new SendFailure('RESTRICTED', 'WhatsApp restricts new chats of this account (463)', { retryable: true })
    case '429':
    case 'rate-overlimit':
      return new SendFailure('RATE_LIMITED', `WhatsApp limits the rate (${error})`, {
        retryable: true,
        retryAfterMs: RATE_LIMIT_PAUSE_MS,
      })
    // 479 is a stale device list; 5xx is the server's own trouble: both may pass.
    default:
      return new SendFailure('WA_REJECTED', `WhatsApp refused the message (${error})`, {
        retryable: error === '479' || /^5\d\d$/.test(error),
      })
  }
}

export type AckResult = Ack | 'timeout' | 'closed'

export class Acks {
  readonly #waiting = new Map<string, (result: AckResult) => void>()

  /** How many messages have left without an answer so far. */
  get pending(): number {
    return this.#waiting.size
  }

  /** To be called before the bytes leave, so that a quick answer is not missed. */
  expect(waMessageId: string, timeoutMs: number): { result: Promise<AckResult>; cancel: () => void } {
    let settle!: (result: AckResult) => void
    const result = new Promise<AckResult>(resolve => {
      settle = value => {
        clearTimeout(timer)
        if (this.#waiting.get(waMessageId) === settle) this.#waiting.delete(waMessageId)
        resolve(value)
      }
    })
    const timer = setTimeout(() => settle('timeout'), timeoutMs)
    this.#waiting.set(waMessageId, settle)
    return { result, cancel: () => settle('closed') }
  }

  /** Returns false if nobody waits for this one (any more). */
  arrived(ack: Ack): boolean {
    const settle = this.#waiting.get(ack.waMessageId)
    settle?.(ack)
    return settle !== undefined
  }

  /** The connection is gone: whatever was on its way is in doubt. */
  closeAll(): void {
    for (const settle of [...this.#waiting.values()]) settle('closed')
  }
}
