/** The frame format of all append-only files: a checked header, then a checked payload; pure functions over buffers. */
import { createHash } from 'node:crypto'

const MAGIC = 0x314a4157 // "WAJ1", little-endian
/** magic 4, payload length 4, sequence 8, payload digest 8, header digest 8 */
export const HEADER_BYTES = 32

export interface Frame {
  readonly sequence: number
  readonly payload: Buffer
  readonly end: number
}

const digest = (bytes: Uint8Array): Buffer => createHash('sha256').update(bytes).digest().subarray(0, 8)

export const encodeFrame = (sequence: number, payload: Buffer): Buffer => {
  const frame = Buffer.allocUnsafe(HEADER_BYTES + payload.length)
  frame.writeUInt32LE(MAGIC, 0)
  frame.writeUInt32LE(payload.length, 4)
  frame.writeBigUInt64LE(BigInt(sequence), 8)
  digest(payload).copy(frame, 16)
  digest(frame.subarray(0, 24)).copy(frame, 24)
  payload.copy(frame, HEADER_BYTES)
  return frame
}

const headerAt = (data: Buffer, at: number): { length: number; sequence: number } | undefined => {
  if (at + HEADER_BYTES > data.length || data.readUInt32LE(at) !== MAGIC) return undefined
  if (!digest(data.subarray(at, at + 24)).equals(data.subarray(at + 24, at + HEADER_BYTES))) return undefined
  return { length: data.readUInt32LE(at + 4), sequence: Number(data.readBigUInt64LE(at + 8)) }
}

export const frameAt = (data: Buffer, at: number): Frame | undefined => {
  const header = headerAt(data, at)
  if (header === undefined) return undefined
  const end = at + HEADER_BYTES + header.length
  if (end > data.length) return undefined
  const payload = data.subarray(at + HEADER_BYTES, end)
  if (!digest(payload).equals(data.subarray(at + 16, at + 24))) return undefined
  return { sequence: header.sequence, payload, end }
}

const validHeaderAfter = (data: Buffer, from: number): boolean => {
  const magic = Buffer.alloc(4)
  magic.writeUInt32LE(MAGIC)
  for (let at = data.indexOf(magic, from); at !== -1; at = data.indexOf(magic, at + 1)) {
    if (headerAt(data, at)) return true
  }
  return false
}

export class CorruptJournal extends Error {}

/**
 * Reads all frames; returns how many bytes are good. A frame is only written after the one before it was synced, so
 * damage is a torn tail exactly if no frame follows; anything else means that committed data was changed.
 */
export const readFrames = (data: Buffer, onFrame: (frame: Frame) => void): number => {
  let at = 0
  while (at < data.length) {
    const frame = frameAt(data, at)
    if (frame === undefined) {
      if (validHeaderAfter(data, at + 1)) throw new CorruptJournal(`damaged record at byte ${at} of ${data.length}`)
      return at
    }
    onFrame(frame)
    at = frame.end
  }
  return at
}
