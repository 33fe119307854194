import assert from 'node:assert/strict'
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { outcomeOf } from '../src/reporter.ts'
import { Spool } from '../src/spool.ts'
import { newFolder } from './harness/folders.ts'

const emptyFolder = (): string => newFolder('spool')
const open = (folder: string, maxBytes = 64 * 1024 * 1024): Spool => Spool.open(folder, { maxBytes })

const add = (spool: Spool, type: string, text = ''): Promise<void> =>
  spool.append(type, (seq, stream) => JSON.stringify({ seq, stream, text }))

const drain = (spool: Spool): number[] => {
  const seen: number[] = []
  for (let entry = spool.peek(); entry; entry = spool.peek()) {
    seen.push(entry.seq)
    spool.acknowledge(entry.seq)
  }
  return seen
}

const bytesIn = (folder: string): number => readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)

test('events come out in order, numbered from 1, and only until acknowledged', async () => {
  const spool = open(emptyFolder())
  await Promise.all(Array.from({ length: 20 }, () => add(spool, 'X')))
  assert.equal(spool.pending, 20)
  assert.deepEqual(drain(spool), Array.from({ length: 20 }, (_, i) => i + 1))
  assert.equal(spool.pending, 0)
  assert.equal(spool.peek(), undefined)
})

test('after a restart the rest comes, with the same stream and going on with the numbers', async () => {
  const folder = emptyFolder()
  const first = open(folder)
  for (let i = 0; i < 5; i++) await add(first, 'X')
  first.acknowledge(1)
  first.acknowledge(2)
  // No close: as after kill -9.
  const second = open(folder)
  assert.equal(second.stream, first.stream)
  assert.equal(second.pending, 3)
  await add(second, 'X')
  assert.deepEqual(drain(second), [3, 4, 5, 6])
})

test('numbers go on also when everything had been acknowledged', async () => {
  const folder = emptyFolder()
  const first = open(folder, 32 * 1024)
  for (let i = 0; i < 200; i++) await add(first, 'X', 'y'.repeat(100))
  drain(first)
  const second = open(folder, 32 * 1024)
  await add(second, 'X')
  assert.deepEqual(drain(second), [201])
})

test('a lost folder gets a new stream', async () => {
  const first = open(emptyFolder())
  const second = open(emptyFolder())
  assert.notEqual(first.stream, second.stream)
})

test('acknowledged segments are removed', async () => {
  const folder = emptyFolder()
  const spool = open(folder, 64 * 1024)
  for (let i = 0; i < 300; i++) await add(spool, 'X', 'y'.repeat(100))
  assert.ok(readdirSync(folder).length > 4)
  assert.equal(drain(spool).length, 300)
  assert.ok(readdirSync(folder).length <= 3)
})

test('a full spool drops receipts first and counts them; its size stays bounded', async () => {
  const folder = emptyFolder()
  const spool = open(folder, 100_000)
  for (let i = 0; i < 1_500; i++) await add(spool, i % 3 ? 'MESSAGE_STATUS' : 'MESSAGE_RECEIVED', 'y'.repeat(100))
  assert.ok(bytesIn(folder) < 120_000)
  assert.ok(spool.dropped > 0)
  const seen = drain(spool)
  assert.equal(seen.length + spool.dropped, 1_500)
  // All numbers left are still in order.
  assert.deepEqual(seen, [...seen].sort((a, b) => a - b))
})

test('answers of the control plane decide about an event', () => {
  assert.equal(outcomeOf(200), 'accepted')
  assert.equal(outcomeOf(404), 'session_gone')
  assert.equal(outcomeOf(410), 'session_gone')
  assert.equal(outcomeOf(422), 'never')
  for (const status of [401, 408, 429, 500, 503]) assert.equal(outcomeOf(status), 'again')
})
