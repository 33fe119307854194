/** One file of the event spool: its name says its first number, its first record the stream it belongs to. */
import { closeSync, openSync, readFileSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { writeFileDurably } from './files.ts'
import { encodeFrame, frameAt, HEADER_BYTES, readFrames } from './journalFrames.ts'

export interface SpoolEntry {
  readonly seq: number
  readonly type: string
  readonly body: string
}

export const segmentPath = (folder: string, firstSeq: number): string =>
  join(folder, `${String(firstSeq).padStart(12, '0')}.log`)

export const firstSeqOf = (fileName: string): number | undefined => {
  const match = /^(\d{12})\.log$/.exec(fileName)
  return match ? Number(match[1]) : undefined
}

export const entryLine = (entry: SpoolEntry): string => `${entry.seq}\t${entry.type}\t${entry.body}\n`

interface Lines {
  readonly stream: string | undefined
  readonly notes: string[]
  readonly entries: SpoolEntry[]
}

const parseLines = (payload: Buffer): Lines => {
  const entries: SpoolEntry[] = []
  const notes: string[] = []
  let stream: string | undefined
  for (const line of payload.toString('utf8').split('\n')) {
    const [first = '', type = '', note] = line.split('\t', 3)
    if (first === 'stream') {
      stream = type
      if (note !== undefined) notes.push(note)
    }
    else if (line) entries.push({ seq: Number(first), type, body: line.slice(first.length + type.length + 2) })
  }
  return { stream, notes, entries }
}

export interface SegmentStart {
  readonly entries?: readonly SpoolEntry[]
  /** Single lines without tabs, given back when the segment is read. Written so that earlier workers pass over them. */
  readonly notes?: readonly string[]
}

/** Born whole, by rename: a segment always has its stream. Returns its size. */
export const createSegment = (path: string, stream: string, { entries = [], notes = [] }: SegmentStart = {}): number => {
  const head = encodeFrame(1, Buffer.from(`stream\t${stream}\n${notes.map(note => `stream\t${stream}\t${note}\n`).join('')}`))
  const rest = entries.length > 0 ? encodeFrame(2, Buffer.from(entries.map(entryLine).join(''))) : Buffer.alloc(0)
  writeFileDurably(path, Buffer.concat([head, rest]))
  return head.length + rest.length
}

export interface SegmentContent {
  readonly stream: string | undefined
  readonly goodBytes: number
  readonly frames: number
}

export const readSegment = (
  path: string,
  onEntry: (entry: SpoolEntry) => void,
  onNote: (note: string) => void = () => undefined,
): SegmentContent => {
  let stream: string | undefined
  let frames = 0
  const goodBytes = readFrames(readFileSync(path), frame => {
    const parsed = parseLines(frame.payload)
    stream ??= parsed.stream
    frames = frame.sequence
    parsed.notes.forEach(onNote)
    parsed.entries.forEach(onEntry)
  })
  return { stream, goodBytes, frames }
}

/** The frame at `offset`, without loading the whole file; undefined if there is none yet. */
export const readFrameEntries = (path: string, offset: number, size: number): { entries: SpoolEntry[]; end: number } | undefined => {
  if (offset + HEADER_BYTES > size) return undefined
  const fd = openSync(path, 'r')
  try {
    const header = Buffer.alloc(HEADER_BYTES)
    readSync(fd, header, 0, HEADER_BYTES, offset)
    const whole = Buffer.alloc(HEADER_BYTES + header.readUInt32LE(4))
    readSync(fd, whole, 0, whole.length, offset)
    const frame = frameAt(whole, 0)
    if (frame === undefined) throw new Error(`unreadable record at byte ${offset} of ${path}`)
    return { entries: parseLines(frame.payload).entries, end: offset + whole.length }
  } finally {
    closeSync(fd)
  }
}
