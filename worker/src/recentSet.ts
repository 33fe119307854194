/** Remembers the last so many texts. */
export class RecentSet {
  readonly #limit: number
  readonly #known = new Set<string>()

  constructor(limit: number) {
    this.#limit = limit
  }

  has(value: string): boolean {
    return this.#known.has(value)
  }

  /** Oldest first. */
  newest(count: number): string[] {
    return [...this.#known].slice(-count)
  }

  /** False if it was there already. */
  add(value: string): boolean {
    if (this.#known.has(value)) return false
    this.#known.add(value)
    if (this.#known.size > this.#limit) {
      // A Set keeps insertion order: the first one is the oldest.
      const [oldest] = this.#known
      if (oldest !== undefined) this.#known.delete(oldest)
    }
    return true
  }
}
