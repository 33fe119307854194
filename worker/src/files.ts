/** Small durable file operations: folders 0700, files 0600, renames that survive a power cut. */
import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'

export const makeFolder = (path: string): void => {
  mkdirSync(path, { recursive: true, mode: 0o700 })
}

export const syncFolder = (path: string): void => {
  const fd = openSync(path, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

/** All or nothing, also across a power cut: temporary file, fsync, rename, fsync of the folder. */
export const writeFileDurably = (path: string, data: Buffer | string): void => {
  const bytes = typeof data === 'string' ? Buffer.from(data) : data
  const temporary = `${path}.tmp`
  const fd = openSync(temporary, 'w', 0o600)
  try {
    let written = 0
    while (written < bytes.length) written += writeSync(fd, bytes, written)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  renameSync(temporary, path)
  syncFolder(dirname(path))
}

export const isMissing = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === 'ENOENT'

export const timestampForName = (now: number): string => new Date(now).toISOString().replace(/[-:]/g, '').replace(/\..*/, 'Z')
