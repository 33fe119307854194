import assert from 'node:assert/strict'
import { appendFileSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Journal, readJournal } from '../src/journal.ts'
import { CorruptJournal } from '../src/journalFrames.ts'
import { newFolder } from './harness/folders.ts'

const newPath = (): string => join(newFolder('journal'), 'journal')

const filled = async (): Promise<string> => {
  const path = newPath()
  const journal = await Journal.open(path, [['a', '0']])
  await journal.commit([['b', '1'], ['c', '2']])
  await journal.commit([['a', null], ['c', '3']])
  await journal.commit([['d', '4']])
  await journal.close()
  return path
}

test('what was committed is there after a new start, and the generation goes on', async () => {
  const path = await filled()
  const journal = await Journal.open(path)
  assert.deepEqual([...journal.entries()], [['b', '1'], ['c', '3'], ['d', '4']])
  assert.equal(journal.generation, 4)
  await journal.commit([['e', '5']])
  assert.equal(journal.generation, 5)
  await journal.close()
  assert.equal(readJournal(path)?.generation, 5)
})

test('only the owner can read the file', async () => {
  const path = await filled()
  assert.equal(statSync(path).mode & 0o777, 0o600)
})

test('a batch is whole or not there, wherever the file was cut', async () => {
  const path = await filled()
  const whole = readFileSync(path)
  const first = readJournal(path)
  assert.ok(first)
  // Everything shorter than the first record is damage, not a torn tail: a journal is born whole.
  for (let length = 40; length < whole.length; length += 3) {
    writeFileSync(path, whole.subarray(0, length))
    const values = readJournal(path)?.values
    assert.equal(values?.has('b'), values?.has('c'), `cut at ${length}`)
  }
})

test('garbage and zeros after the last record are cut away', async () => {
  for (const tail of [Buffer.alloc(4096), Buffer.from('garbage that is no record')]) {
    const path = await filled()
    const size = statSync(path).size
    appendFileSync(path, tail)
    assert.equal(readJournal(path)?.goodBytes, size)
    const journal = await Journal.open(path)
    assert.equal(journal.get('d'), '4')
    await journal.close()
  }
})

test('damage in the middle is refused, never skipped', async () => {
  const path = await filled()
  const bytes = readFileSync(path)
  for (const at of [5, 40, 60, 90]) {
    const damaged = Buffer.from(bytes)
    damaged[at] = (damaged[at] ?? 0) ^ 0xff
    writeFileSync(path, damaged)
    assert.throws(() => readJournal(path), CorruptJournal, `byte ${at}`)
  }
})

test('an empty file is damage too', async () => {
  const path = await filled()
  truncateSync(path, 0)
  assert.throws(() => readJournal(path), CorruptJournal)
})

test('a hundred commits at once share a few writes and all survive', async () => {
  const path = newPath()
  const journal = await Journal.open(path)
  await Promise.all(Array.from({ length: 100 }, (_, i) => journal.commit([[`k${i}`, String(i)]])))
  assert.equal(journal.generation, 101)
  await journal.close()
  assert.equal(readJournal(path)?.values.size, 100)
})

test('a file full of history is replaced by a snapshot while commits go on', async () => {
  const path = newPath()
  const journal = await Journal.open(path, [], key => key !== 'old')
  const big = 'x'.repeat(200_000)
  await journal.commit([['old', '1']])
  for (let i = 0; i < 60; i++) await Promise.all([journal.commit([['k', `${i}${big}`]]), journal.commit([[`n${i}`, '1']])])
  const { generation } = journal
  await journal.close()
  const content = readJournal(path)
  assert.ok(statSync(path).size < 6_000_000)
  assert.equal(content?.generation, generation)
  assert.equal(content?.values.get('k'), `59${big}`)
  assert.equal(content?.values.has('old'), false)
  assert.equal([...(content?.values.keys() ?? [])].filter(key => key.startsWith('n')).length, 60)
})
