/** How often a message was sent again at a phone's request; in memory is enough, Baileys only wants an upper bound. */
import type { CacheStore } from 'baileys'

const LIMIT = 1_000

export const retryCounters = (): CacheStore => {
  const values = new Map<string, unknown>()
  return {
    get: <T>(key: string) => values.get(key) as T | undefined,
    set: (key, value) => {
      values.delete(key)
      values.set(key, value)
      const [oldest] = values.keys()
      if (values.size > LIMIT && oldest !== undefined) values.delete(oldest)
    },
    del: key => {
      values.delete(key)
    },
    flushAll: () => values.clear(),
  }
}
