/** Proof that came after we had stopped waiting: the ledger is put right and the control plane told by an event. */
import { proto, type BaileysEventMap } from 'baileys'
import { failureOf, type Ack } from './acks.ts'
import type { Ledger } from './ledger.ts'
import { errorText, type Log } from './log.ts'
import type { Reporter } from './reporter.ts'

export interface LateAcksOptions {
  readonly ledger: Ledger
  readonly reporter: Reporter
  readonly log: Log
}

export class LateAcks {
  readonly #options: LateAcksOptions

  constructor(options: LateAcksOptions) {
    this.#options = options
  }

  async arrived(ack: Ack): Promise<void> {
    const { ledger, reporter } = this.#options
    const entry = ledger.message(ack.waMessageId)
    if (entry?.state !== 'sending') return
    const { messageId } = entry
    const { waMessageId } = ack
    if (ack.error === undefined) {
      await ledger.markSent(waMessageId, messageId, ack.at)
      await reporter.emit('MESSAGE_SENT', { messageId, waMessageId })
    } else {
      const failure = failureOf(ack.error)
      await ledger.forget(waMessageId)
      const error = { code: failure.code, message: failure.message }
      await reporter.emit('MESSAGE_FAILED', { messageId, waMessageId, error, retryable: failure.retryable })
    }
  }

  /** A receipt proves more than an ack: whoever has the message got it from the server. */
  delivered(updates: BaileysEventMap['messages.update']): void {
    for (const { key, update } of updates) {
      if (!key.fromMe || !key.id || (update.status ?? 0) < proto.WebMessageInfo.Status.DELIVERY_ACK) continue
      const entry = this.#options.ledger.message(key.id)
      if (entry?.state !== 'sending') continue
      this.arrived({ waMessageId: key.id, at: Date.now() }).catch((error: unknown) => {
        this.#options.log.error('late_ack_lost', { error: errorText(error) })
      })
    }
  }
}
