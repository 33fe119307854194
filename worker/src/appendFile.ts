/** An append-only file of frames with group commit: whatever is waiting goes out in one write and one fdatasync. */
import { close, closeSync, fdatasync, ftruncateSync, openSync, write } from 'node:fs'
import { promisify } from 'node:util'
import { sleep } from './clock.ts'
import { encodeFrame } from './journalFrames.ts'

const writeAt = promisify(write)
const sync = promisify(fdatasync)
const closeFd = promisify(close)

interface Waiting {
  readonly lines: string
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

export interface AppendOptions {
  /** Instead of failing, keep trying with this pause (a full disk may be emptied). Order is kept. */
  readonly retryAfterMs?: number
}

export class AppendFile {
  readonly #fd: number
  readonly #retryAfterMs: number | undefined
  #size: number
  #sequence: number
  #waiting: Waiting[] = []
  #running: Promise<void> | undefined
  #closed = false

  /** `size` is how much of the file is good (a torn tail beyond it is cut), `sequence` the last number used in it. */
  constructor(path: string, size: number, sequence: number, options: AppendOptions = {}) {
    // Not mode 'a': after a failed write the next one must go back to the last good byte.
    this.#fd = openSync(path, size === 0 ? 'w' : 'r+', 0o600)
    this.#size = size
    this.#sequence = sequence
    this.#retryAfterMs = options.retryAfterMs
    try {
      ftruncateSync(this.#fd, size)
    } catch (error) {
      closeSync(this.#fd)
      throw error
    }
  }

  /** Bytes that are on disk for certain. */
  get size(): number {
    return this.#size
  }

  /** Counts appended batches; written in each frame, so it only ever grows. */
  get sequence(): number {
    return this.#sequence
  }

  get busy(): boolean {
    return this.#running !== undefined
  }

  /** Resolves when `lines` are on disk. Calls made while a write is under way share the next one. */
  append(lines: string): Promise<void> {
    if (this.#closed) return Promise.reject(new Error('the file is closed'))
    return new Promise((resolve, reject) => {
      this.#waiting.push({ lines, resolve, reject })
      this.#running ??= this.#run()
    })
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      const group = this.#waiting
      this.#waiting = []
      try {
        await this.#write(group)
        for (const one of group) one.resolve()
      } catch (error) {
        if (this.#retryAfterMs === undefined) {
          for (const one of group) one.reject(error)
        } else {
          this.#waiting = [...group, ...this.#waiting]
          await sleep(this.#retryAfterMs)
        }
      }
    }
    this.#running = undefined
  }

  async #write(group: readonly Waiting[]): Promise<void> {
    const sequence = this.#sequence + group.length
    const frame = encodeFrame(sequence, Buffer.from(group.map(one => one.lines).join('')))
    try {
      let written = 0
      while (written < frame.length) {
        const { bytesWritten } = await writeAt(this.#fd, frame, written, frame.length - written, this.#size + written)
        written += bytesWritten
      }
      await sync(this.#fd)
    } catch (error) {
      // Half a frame must not stay in the middle of the file: the next append would make it look like damage.
      ftruncateSync(this.#fd, this.#size)
      throw error
    }
    this.#size += frame.length
    this.#sequence = sequence
  }

  async flush(): Promise<void> {
    while (this.#running) await this.#running
  }

  async close(): Promise<void> {
    await this.flush()
    this.#closed = true
    await closeFd(this.#fd)
  }
}
