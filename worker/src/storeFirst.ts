/** Puts our storing before Baileys' handling of a stanza: it acknowledges as soon as it has handled it. */
import type { EventEmitter } from 'node:events'
import type { BinaryNode } from 'baileys'

type Handler = (node: BinaryNode) => unknown

/** A stanza not stored by then is not handled, so not acknowledged: WhatsApp delivers it again with the next connection. */
const GIVE_UP_MS = 10_000

export interface StoreFirstOptions {
  /** Resolves when what the stanza says is on disk; undefined if there is nothing to store. */
  readonly store: (node: BinaryNode) => Promise<void> | undefined
  readonly onGivenUp: () => void
  readonly giveUpMs?: number
}

const inTime = (work: Promise<void>, ms: number): Promise<boolean> =>
  new Promise(resolve => {
    const end = (done: boolean): void => {
      clearTimeout(timer)
      resolve(done)
    }
    const timer = setTimeout(end, ms, false)
    work.then(() => end(true), () => end(false))
  })

/** Nothing else waits for it: a slow disk holds back these acknowledgements and nothing more. Order is kept. */
export const storeFirst = (ws: EventEmitter, event: string, options: StoreFirstOptions): void => {
  const handlers = ws.listeners(event) as Handler[]
  const handle: Handler = node => Promise.all(handlers.map(async handler => handler(node))).catch(() => undefined)
  let tail = Promise.resolve()
  ws.removeAllListeners(event)
  ws.on(event, (node: BinaryNode) => {
    const storing = options.store(node)
    if (storing === undefined) return void handle(node)
    // The time runs from now on for each, so a full queue does not add up.
    const stored = inTime(storing, options.giveUpMs ?? GIVE_UP_MS)
    tail = tail.then(async () => {
      // Not awaited: handling may take long, and Baileys keeps its own order.
      if (await stored) void handle(node)
      else options.onGivenUp()
    })
  })
}
