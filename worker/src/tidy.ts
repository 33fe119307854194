/**
 * Gives memory back after a burst of work (start and login, media). An idle process would keep its garbage for hours: V8
 * collects when it needs room, not when it has time. Only possible when node runs with --expose-gc (worker.flags.json).
 */

/** After the queries that follow a login, and after a run of media messages. */
const AFTER_MS = 5_000

let timer: NodeJS.Timeout | undefined

export const tidyUpSoon = (): void => {
  clearTimeout(timer)
  timer = setTimeout(() => globalThis.gc?.(), AFTER_MS)
  timer.unref()
}
