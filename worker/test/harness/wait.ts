/** Waiting in tests: for a condition, never for a time. */
import { setTimeout as delay } from 'node:timers/promises'

export const waitFor = async <T>(
  what: string,
  check: () => T | undefined | false | Promise<T | undefined | false>,
  timeoutMs = 15_000,
): Promise<T> => {
  const until = Date.now() + timeoutMs
  for (;;) {
    const value = await check()
    if (value !== undefined && value !== false) return value
    if (Date.now() > until) throw new Error(`waited ${timeoutMs} ms in vain for ${what}`)
    await delay(20)
  }
}
