/** Waiting that can be cut short, and the pause between attempts at something that keeps failing. */
import { setTimeout as delay } from 'node:timers/promises'

/** Resolves after `ms`, or at once when `signal` fires; never rejects. */
export const sleep = async (ms: number, signal?: AbortSignal): Promise<void> => {
  await delay(ms, undefined, signal ? { signal } : undefined).catch(() => undefined)
}

/** Half fixed, half random: retries of many workers spread out but none comes back at once. */
export const retryPauseMs = (failures: number, baseMs: number, maxMs: number, random = Math.random()): number => {
  const full = Math.min(maxMs, baseMs * 2 ** Math.min(Math.max(failures - 1, 0), 20))
  return full / 2 + (random * full) / 2
}

export const withTimeout = async <T>(work: Promise<T>, ms: number, message: string): Promise<T> => {
  const timer = new AbortController()
  const late = delay(ms, undefined, { signal: timer.signal }).then(() => {
    throw new Error(message)
  })
  late.catch(() => undefined)
  try {
    return await Promise.race([work, late])
  } finally {
    timer.abort()
  }
}
