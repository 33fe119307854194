/** A durable map in one append-only file: a commit is one atomic batch; a snapshot replaces the file when it has grown. */
import { readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { AppendFile } from './appendFile.ts'
import { isMissing, makeFolder, writeFileDurably } from './files.ts'
import { CorruptJournal, encodeFrame, readFrames } from './journalFrames.ts'

/** Keys and values hold no tab or line feed (values are JSON or base64); a null value removes the key. */
export type Change = readonly [key: string, value: string | null]
export type Keep = (key: string, value: string) => boolean

const toLines = (changes: Iterable<Change>): string => {
  let lines = ''
  for (const [key, value] of changes) lines += value === null ? `${key}\n` : `${key}\t${value}\n`
  return lines
}

const applyLines = (payload: Buffer, values: Map<string, string>): void => {
  let start = 0
  while (start < payload.length) {
    const end = payload.indexOf(10, start)
    if (end === -1) throw new CorruptJournal('record without an end of line')
    const tab = payload.subarray(start, end).indexOf(9)
    // Each string is decoded by itself: slices of one big string would keep all of it in memory.
    if (tab === -1) values.delete(payload.toString('utf8', start, end))
    else values.set(payload.toString('utf8', start, start + tab), payload.toString('utf8', start + tab + 1, end))
    start = end + 1
  }
}

export interface JournalContent {
  readonly values: Map<string, string>
  readonly generation: number
  readonly goodBytes: number
}

/** Reads without changing anything; undefined if there is no file. Throws CorruptJournal on damage. */
export const readJournal = (path: string): JournalContent | undefined => {
  let data: Buffer
  try {
    data = readFileSync(path)
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
  const values = new Map<string, string>()
  let generation = 0
  const goodBytes = readFrames(data, frame => {
    applyLines(frame.payload, values)
    generation = frame.sequence
  })
  // A journal is born by rename, complete with its first record: without one it has been damaged.
  if (generation === 0) throw new CorruptJournal('no readable record')
  return { values, generation, goodBytes }
}

/** Writes a whole journal file at once, durably. */
export const writeJournal = (path: string, values: ReadonlyMap<string, string>, generation: number): number => {
  const frame = encodeFrame(generation, Buffer.from(toLines(values)))
  writeFileDurably(path, frame)
  return frame.length
}

/** Rewritten when the file is both big and mostly history. */
const COMPACT_ABOVE_BYTES = 4 * 1024 * 1024

export class Journal {
  readonly #path: string
  readonly #keep: Keep
  readonly #values: Map<string, string>
  #file: AppendFile
  #snapshotBytes: number
  #compacting: Promise<void> | undefined

  private constructor(path: string, keep: Keep, values: Map<string, string>, file: AppendFile) {
    this.#path = path
    this.#keep = keep
    this.#values = values
    this.#file = file
    this.#snapshotBytes = file.size
  }

  /** `initial` is what a new journal holds; entries that `keep` refuses are left out of every snapshot. */
  static async open(path: string, initial: readonly Change[] = [], keep: Keep = () => true): Promise<Journal> {
    makeFolder(dirname(path))
    const found = readJournal(path)
    const values = found?.values ?? new Map<string, string>()
    if (found === undefined) for (const [key, value] of initial) if (value !== null) values.set(key, value)
    for (const [key, value] of values) if (!keep(key, value)) values.delete(key)
    const generation = found?.generation ?? 1
    const size = writeJournal(path, values, generation)
    return new Journal(path, keep, values, new AppendFile(path, size, generation))
  }

  get generation(): number {
    return this.#file.sequence
  }

  get(key: string): string | undefined {
    return this.#values.get(key)
  }

  entries(): IterableIterator<[string, string]> {
    return this.#values.entries()
  }

  /** Readers see the change at once; the promise resolves when it is on disk. */
  async commit(changes: readonly Change[]): Promise<void> {
    if (changes.length === 0) return
    for (const [key, value] of changes) {
      if (value === null) this.#values.delete(key)
      else this.#values.set(key, value)
    }
    // A snapshot taken meanwhile already holds these values; appending them again does no harm.
    while (this.#compacting) await this.#compacting
    await this.#file.append(toLines(changes))
    if (this.#file.size > COMPACT_ABOVE_BYTES + 2 * this.#snapshotBytes) this.#compacting ??= this.#compact()
  }

  async #compact(): Promise<void> {
    await this.#file.close()
    const { size, sequence } = this.#file
    for (const [key, value] of this.#values) if (!this.#keep(key, value)) this.#values.delete(key)
    try {
      this.#snapshotBytes = writeJournal(this.#path, this.#values, sequence)
    } catch {
      // No room for a second copy: the old file is whole, carry on with it and try again when it has doubled.
      this.#snapshotBytes = size
    }
    this.#file = new AppendFile(this.#path, this.#snapshotBytes, sequence)
    this.#compacting = undefined
  }

  async close(): Promise<void> {
    while (this.#compacting) await this.#compacting
    await this.#file.close()
  }
}
