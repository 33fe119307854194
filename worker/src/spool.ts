/** Numbered events on disk until the control plane has them: append-only segments, an acknowledged number, a size limit. */
import { randomUUID } from 'node:crypto'
import { closeSync, openSync, readdirSync, readFileSync, renameSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { AppendFile } from './appendFile.ts'
import { makeFolder } from './files.ts'
import { shrinkSegments } from './spoolLimit.ts'
import {
  createSegment,
  entryLine,
  firstSeqOf,
  readFrameEntries,
  readSegment,
  segmentPath,
  type SpoolEntry,
} from './spoolSegment.ts'

export interface SpoolOptions {
  readonly maxBytes: number
  /** Sees every stored event at start, also acknowledged ones still there. */
  readonly onStored?: (entry: SpoolEntry) => void
  readonly onProblem?: (event: string, detail: string) => void
  /** What every new file is to begin with, most important last: old files go, and with them what `onStored` would see. */
  readonly notes?: () => readonly string[]
  readonly onNote?: (note: string) => void
}

/** Written digits are padded, so that the number can be overwritten in place. */
const ACKED_WIDTH = 16
const RETRY_FULL_DISK_MS = 1_000

export class Spool {
  readonly #folder: string
  readonly #options: SpoolOptions
  readonly #segmentBytes: number
  readonly #ackedFd: number
  readonly #sizes = new Map<number, number>()
  #stream = ''
  #active!: AppendFile
  #activeFirst = 1
  #lastSeq = 0
  #acked = 0
  #pending = 0
  #dropped = 0
  #reader = { first: 0, offset: 0 }
  #loaded: SpoolEntry[] = []
  #wake: (() => void) | undefined
  #rotating: Promise<void> | undefined

  private constructor(folder: string, options: SpoolOptions) {
    this.#folder = folder
    this.#options = options
    this.#segmentBytes = Math.max(1024, Math.floor(options.maxBytes / 16))
    makeFolder(folder)
    this.#acked = this.#readAcked()
    this.#ackedFd = openSync(join(folder, 'acked'), this.#acked > 0 ? 'r+' : 'w', 0o600)
  }

  static open(folder: string, options: SpoolOptions): Spool {
    const spool = new Spool(folder, options)
    spool.#load()
    return spool
  }

  get stream(): string {
    return this.#stream
  }

  /** Events not yet acknowledged. */
  get pending(): number {
    return this.#pending
  }

  /** Events given up because the spool was full. */
  get dropped(): number {
    return this.#dropped
  }

  /** `makeBody` gets the number; resolves when the event is on disk. */
  append(type: string, makeBody: (seq: number, stream: string) => string): Promise<void> {
    const seq = ++this.#lastSeq
    this.#pending += 1
    const written = this.#active.append(entryLine({ seq, type, body: makeBody(seq, this.#stream) }))
    return written.then(() => this.#afterWrite())
  }

  /** The oldest event not yet acknowledged; undefined if there is none on disk. */
  peek(): SpoolEntry | undefined {
    for (;;) {
      const head = this.#loaded[0]
      if (head !== undefined && head.seq > this.#acked) return head
      if (head !== undefined) this.#loaded.shift()
      else if (!this.#loadMore()) return undefined
    }
  }

  /** Resolves when something may have been added. */
  changed(): Promise<void> {
    return new Promise(resolve => {
      this.#wake = resolve
    })
  }

  wake(): void {
    this.#wake?.()
    this.#wake = undefined
  }

  acknowledge(seq: number): void {
    if (seq <= this.#acked) return
    this.#acked = seq
    this.#pending = Math.max(0, this.#pending - 1)
    this.#writeAcked(seq)
  }

  /** Not synced: after a power cut some events go out twice, and their number makes that harmless. */
  #writeAcked(seq: number): void {
    writeSync(this.#ackedFd, String(seq).padStart(ACKED_WIDTH, '0'), 0)
  }

  async close(): Promise<void> {
    await this.#rotating
    await this.#active.close()
    closeSync(this.#ackedFd)
  }

  #readAcked(): number {
    try {
      return Number(/^\d+/.exec(readFileSync(join(this.#folder, 'acked'), 'utf8'))?.[0] ?? 0)
    } catch {
      return 0
    }
  }

  #load(): void {
    const firsts = readdirSync(this.#folder).map(firstSeqOf).filter(first => first !== undefined)
    let frames = 1
    for (const first of firsts.sort((a, b) => a - b)) {
      try {
        const content = readSegment(
          segmentPath(this.#folder, first),
          entry => this.#seen(entry),
          note => this.#options.onNote?.(note),
        )
        this.#stream = content.stream ?? this.#stream
        this.#lastSeq = Math.max(this.#lastSeq, first - 1)
        this.#sizes.set(first, content.goodBytes)
        frames = content.frames
      } catch (error) {
        // Events are worth less than a running session: the damaged file is kept aside and its numbers are lost.
        this.#lastSeq = Math.max(this.#lastSeq, first + 1_000_000)
        renameSync(segmentPath(this.#folder, first), `${segmentPath(this.#folder, first)}.broken`)
        this.#options.onProblem?.('spool_segment_broken', error instanceof Error ? error.message : String(error))
      }
    }
    const last = [...this.#sizes.keys()].at(-1)
    if (last === undefined) {
      // Numbers start again, so the stream must be a new one.
      this.#stream = randomUUID()
      this.#lastSeq = 0
      this.#acked = 0
      this.#writeAcked(0)
      this.#startSegment()
    } else {
      this.#activeFirst = last
      this.#active = this.#openSegment(last, this.#sizes.get(last) ?? 0, frames)
    }
    this.#reader = { first: [...this.#sizes.keys()][0] ?? this.#activeFirst, offset: 0 }
  }

  #seen(entry: SpoolEntry): void {
    this.#lastSeq = Math.max(this.#lastSeq, entry.seq)
    if (entry.seq > this.#acked) this.#pending += 1
    this.#options.onStored?.(entry)
  }

  #openSegment(first: number, size: number, frames: number): AppendFile {
    return new AppendFile(segmentPath(this.#folder, first), size, frames, { retryAfterMs: RETRY_FULL_DISK_MS })
  }

  #startSegment(): void {
    this.#activeFirst = this.#lastSeq + 1
    const size = createSegment(segmentPath(this.#folder, this.#activeFirst), this.#stream, { notes: this.#notes() })
    this.#sizes.set(this.#activeFirst, size)
    this.#active = this.#openSegment(this.#activeFirst, size, 1)
  }

  /** As many of the last as fit in an eighth of the file. */
  #notes(): readonly string[] {
    const notes = this.#options.notes?.() ?? []
    let room = this.#segmentBytes / 8
    let from = notes.length
    while (from > 0 && (room -= Buffer.byteLength(notes[from - 1] ?? '')) > 0) from -= 1
    return notes.slice(from)
  }

  #afterWrite(): void {
    this.#sizes.set(this.#activeFirst, this.#active.size)
    if (this.#active.size > this.#segmentBytes) this.#rotating ??= this.#rotate()
    this.wake()
  }

  async #rotate(): Promise<void> {
    const old = this.#active
    try {
      while (old.busy) await old.flush()
      // From here to the new segment nothing is awaited, so no event can fall between the two files.
      this.#sizes.set(this.#activeFirst, old.size)
      this.#startSegment()
      await old.close()
      this.#shrink()
    } catch (error) {
      this.#options.onProblem?.('spool_rotation_failed', error instanceof Error ? error.message : String(error))
    } finally {
      this.#rotating = undefined
    }
  }

  #shrink(): void {
    const { maxBytes, onProblem } = this.#options
    const closed = { folder: this.#folder, stream: this.#stream, acked: this.#acked, sizes: this.#sizes, keepWhole: this.#activeFirst }
    const { lost, rewritten } = shrinkSegments(closed, maxBytes)
    this.#dropped += lost
    this.#pending = Math.max(0, this.#pending - lost)
    if (lost > 0) onProblem?.('spool_full', `${lost} events dropped`)
    if (rewritten.has(this.#reader.first)) {
      this.#loaded = []
      this.#reader.offset = 0
    }
  }

  #loadMore(): boolean {
    const size = this.#reader.first === this.#activeFirst ? this.#active.size : (this.#sizes.get(this.#reader.first) ?? 0)
    const frame = readFrameEntries(segmentPath(this.#folder, this.#reader.first), this.#reader.offset, size)
    if (frame !== undefined) {
      this.#reader.offset = frame.end
      this.#loaded = frame.entries
      return true
    }
    if (this.#reader.first === this.#activeFirst) return false
    const next = [...this.#sizes.keys()].find(first => first > this.#reader.first) ?? this.#activeFirst
    // All of this segment is acknowledged: entries are only left behind by acknowledging them.
    this.#remove(this.#reader.first)
    this.#reader = { first: next, offset: 0 }
    return true
  }

  #remove(first: number): void {
    rmSync(segmentPath(this.#folder, first), { force: true })
    this.#sizes.delete(first)
  }
}
