/** Keeps the spool below its size: receipts go first, oldest first; if that is not enough, everything, oldest first. */
import { createSegment, readSegment, segmentPath, type SpoolEntry } from './spoolSegment.ts'

export interface Segments {
  readonly folder: string
  readonly stream: string
  readonly acked: number
  /** Bytes by first number, oldest first; changed in place. */
  readonly sizes: Map<number, number>
  /** The segment being written is left alone. */
  readonly keepWhole: number
}

export interface Shrunk {
  readonly lost: number
  readonly rewritten: ReadonlySet<number>
}

/** Rewrites one segment without what may go; the gaps show in the numbers. Returns how many events were lost. */
const thin = (segments: Segments, first: number, dropAll: boolean): number => {
  const path = segmentPath(segments.folder, first)
  const kept: SpoolEntry[] = []
  let lost = 0
  readSegment(path, entry => {
    if (entry.seq <= segments.acked) return
    if (dropAll || entry.type === 'MESSAGE_STATUS') lost += 1
    else kept.push(entry)
  })
  segments.sizes.set(first, createSegment(path, segments.stream, { entries: kept }))
  return lost
}

export const shrinkSegments = (segments: Segments, maxBytes: number): Shrunk => {
  const total = (): number => [...segments.sizes.values()].reduce((sum, size) => sum + size, 0)
  const rewritten = new Set<number>()
  let lost = 0
  for (const dropAll of [false, true]) {
    for (const first of segments.sizes.keys()) {
      if (total() <= maxBytes) return { lost, rewritten }
      if (first === segments.keepWhole) continue
      lost += thin(segments, first, dropAll)
      rewritten.add(first)
    }
  }
  return { lost, rewritten }
}
