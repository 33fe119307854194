/** Temporary folders that are gone when the test process ends. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export const newFolder = (name: string): string => {
  const folder = mkdtempSync(join(tmpdir(), `wa-worker-${name}-`))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  return folder
}
