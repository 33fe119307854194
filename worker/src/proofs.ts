/** Sorts every proof that WhatsApp has a message: to the sender who waits for it, or, if late, into ledger and event. */
import { proto, type BaileysEventMap, type BinaryNode } from 'baileys'
import { failureOf, parseAck, type Ack, type Acks } from './acks.ts'
import type { Ledger } from './ledger.ts'
import { errorText, type Log } from './log.ts'
import type { Reporter } from './reporter.ts'

export interface ProofsOptions {
  readonly acks: Acks
  readonly ledger: Ledger
  readonly reporter: Reporter
  readonly log: Log
}

export class Proofs {
  readonly #options: ProofsOptions

  constructor(options: ProofsOptions) {
    this.#options = options
  }

  onAck(node: BinaryNode): void {
    const ack = parseAck(node, Date.now())
    if (ack) this.#take(ack)
  }

  /** A receipt proves more than an ack: whoever has the message got it from the server. */
  onReceipts(updates: BaileysEventMap['messages.update']): void {
    for (const { key, update } of updates) {
      const received = (update.status ?? 0) >= proto.WebMessageInfo.Status.DELIVERY_ACK
      if (received && key.fromMe && key.id) this.#take({ waMessageId: key.id, at: Date.now() })
    }
  }

  #take(ack: Ack): void {
    if (this.#options.acks.arrived(ack)) return
    this.#late(ack).catch((error: unknown) => this.#options.log.error('late_ack_lost', { error: errorText(error) }))
  }

  async #late({ waMessageId, at, error }: Ack): Promise<void> {
    const { ledger, reporter } = this.#options
    const entry = ledger.message(waMessageId)
    if (entry?.state !== 'sending') return
    const { messageId } = entry
    if (error === undefined) {
      await ledger.markSent(waMessageId, messageId, at)
      await reporter.emit('MESSAGE_SENT', { messageId, waMessageId })
      return
    }
    const { code, message, retryable } = failureOf(error)
    await ledger.forget(waMessageId)
    await reporter.emit('MESSAGE_FAILED', { messageId, waMessageId, error: { code, message }, retryable })
  }
}
