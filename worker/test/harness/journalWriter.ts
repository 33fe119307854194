/** Commits batches as fast as it can and says which are safe; run as a process that gets killed. */
import { writeSync } from 'node:fs'
import { Journal } from '../../src/journal.ts'

const path = process.argv[2] ?? ''
const journal = await Journal.open(path, [['creds', '0']])
const start = Number(journal.get('creds'))
const padding = 'x'.repeat(3_000)
for (let n = start + 1; ; n++) {
  // Both keys carry the same number: a batch torn apart would show.
  await Promise.all([
    journal.commit([['creds', String(n)], ['session-a', `${n} ${padding}`]]),
    journal.commit([[`pre-key-${n % 50}`, padding]]),
  ])
  writeSync(1, `${n}\n`)
}
