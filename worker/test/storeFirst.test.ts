import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import type { BinaryNode } from 'baileys'
import { storeFirst } from '../src/storeFirst.ts'

const node = (id: string): BinaryNode => ({ tag: 'receipt', attrs: { id } })

interface Scene {
  ws: EventEmitter
  handled: string[]
  givenUp: () => number
  stored: (id: string) => void
}

/** Handling stands for the acknowledgement; ids that begin with `-` have nothing to store. */
const scene = (giveUpMs = 5_000): Scene => {
  const ws = new EventEmitter()
  const handled: string[] = []
  const waiting = new Map<string, () => void>()
  let givenUp = 0
  ws.on('CB:receipt', async (receipt: BinaryNode) => {
    handled.push(receipt.attrs['id'] ?? '')
  })
  storeFirst(ws, 'CB:receipt', {
    store: ({ attrs: { id = '' } }) => (id.startsWith('-') ? undefined : new Promise(resolve => waiting.set(id, resolve))),
    onGivenUp: () => (givenUp += 1),
    giveUpMs,
  })
  return { ws, handled, givenUp: () => givenUp, stored: id => waiting.get(id)?.() }
}

test('a receipt is acknowledged only when it is on disk, and in order', async () => {
  const { ws, handled, stored } = scene()
  for (const id of ['1', '2', '3']) ws.emit('CB:receipt', node(id))
  await delay(20)
  assert.deepEqual(handled, [])
  stored('2')
  await delay(5)
  assert.deepEqual(handled, [])
  stored('1')
  await delay(5)
  assert.deepEqual(handled, ['1', '2'])
  stored('3')
  await delay(5)
  assert.deepEqual(handled, ['1', '2', '3'])
})

test('what needs no storing does not wait', () => {
  const { ws, handled } = scene()
  ws.emit('CB:receipt', node('1'))
  ws.emit('CB:receipt', node('-retry'))
  assert.deepEqual(handled, ['-retry'])
})

test('a disk that never answers: no acknowledgement, nobody is stuck, and later ones go through', async () => {
  const { ws, handled, givenUp, stored } = scene(40)
  for (let i = 0; i < 50; i++) ws.emit('CB:receipt', node(`lost${i}`))
  await delay(100)
  assert.equal(givenUp(), 50)
  assert.deepEqual(handled, [])
  ws.emit('CB:receipt', node('after'))
  stored('after')
  await delay(5)
  assert.deepEqual(handled, ['after'])
})

test('a handler that fails does not stop the next', async () => {
  const ws = new EventEmitter()
  let calls = 0
  ws.on('x', async () => {
    calls += 1
    throw new Error('no')
  })
  storeFirst(ws, 'x', { store: async () => undefined, onGivenUp: () => undefined })
  ws.emit('x', node('1'))
  ws.emit('x', node('2'))
  await delay(10)
  assert.equal(calls, 2)
})
