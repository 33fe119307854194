import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import type { BinaryNode, WAMessage } from 'baileys'
import { Inbound } from '../src/inbound.ts'
import { readReceipt } from '../src/receipts.ts'
import { Reported } from '../src/reported.ts'
import type { EventData } from '../src/reporter.ts'
import { Spool } from '../src/spool.ts'
import { newFolder } from './harness/folders.ts'
import { quiet } from './harness/signal.ts'

const ME = { id: '972500000001:3@s.whatsapp.net', lid: '111:3@lid' }
const OTHER = '972540000001@s.whatsapp.net'
const OTHER_LID = '222@lid'
const GROUP = '123-456@g.us'

const receipt = (attrs: Record<string, string>, more: string[] = []): BinaryNode => ({
  tag: 'receipt',
  attrs: { id: 'M1', from: OTHER, ...attrs },
  ...(more.length > 0
    ? { content: [{ tag: 'list', attrs: {}, content: more.map(id => ({ tag: 'item', attrs: { id } })) }] }
    : {}),
})

/** A spool whose writes end when the test says so. */
const start = (numbers: Record<string, string> = {}, reported = new Reported()) => {
  const emitted: EventData[] = []
  const writes: Array<() => void> = []
  const settled: string[] = []
  const inbound = new Inbound({
    reporter: {
      emit: (_type, data) => {
        emitted.push(data)
        return new Promise(resolve => writes.push(resolve))
      },
    },
    reported,
    opened: { claim: id => ({ handled: Promise.resolve(), settle: () => settled.push(id ?? '') }) },
    me: () => ME,
    phoneJidOf: async lid => numbers[lid],
    media: { keep: async () => ({ state: 'off' }) },
    sentMessage: () => undefined,
    log: quiet,
  })
  return { inbound, emitted, settled, write: () => writes.splice(0).forEach(done => done()) }
}

const message = (id: string, remoteJid: string, key: Partial<WAMessage['key']> = {}): WAMessage => ({
  key: { id, remoteJid, ...key },
  message: { conversation: 'hi' },
})

test('a receipt in the words of the seam', () => {
  const word = (type?: string): string | undefined => readReceipt(receipt(type ? { type } : {}), ME)[0]?.status
  assert.deepEqual([undefined, 'read', 'played', 'retry', 'sender', 'inactive'].map(word), [
    'delivered', 'read', 'played', undefined, undefined, undefined,
  ])
  assert.deepEqual(readReceipt(receipt({ from: '972540000001:7@s.whatsapp.net' }, ['M2', 'M3']), ME), [
    { waMessageId: 'M1', status: 'delivered', to: OTHER },
    { waMessageId: 'M2', status: 'delivered', to: OTHER },
    { waMessageId: 'M3', status: 'delivered', to: OTHER },
  ])
  assert.deepEqual(readReceipt(receipt({ from: GROUP, participant: OTHER_LID }), ME)[0]?.to, OTHER_LID)
})

test('receipts that say nothing about a recipient of ours', () => {
  for (const attrs of [
    { from: ME.id },
    { from: ME.lid },
    { from: ME.id, recipient: OTHER, type: 'read' },
    { from: GROUP },
    { from: GROUP, participant: ME.lid },
    { from: 'status@broadcast', participant: OTHER },
    { from: '1@newsletter' },
  ] as Array<Record<string, string>>) {
    assert.deepEqual(readReceipt(receipt(attrs), ME), [], JSON.stringify(attrs))
  }
})

test('a receipt is stored when its event is on disk; a repeated one waits for the first', async () => {
  const { inbound, emitted, write } = start()
  const done: string[] = []
  void inbound.onReceipt(receipt({}))?.then(() => done.push('first'))
  void inbound.onReceipt(receipt({ from: '972540000001:9@s.whatsapp.net' }))?.then(() => done.push('repeated'))
  assert.equal(inbound.onReceipt(receipt({ type: 'retry' })), undefined)
  await delay(10)
  assert.deepEqual(done, [])
  assert.equal(emitted.length, 1)
  write()
  await delay(5)
  assert.deepEqual(done, ['first', 'repeated'])
})

test('a message is settled only when its event is on disk, and many share one write', async () => {
  const { inbound, emitted, settled, write } = start()
  inbound.onMessages({ messages: [message('A', OTHER), message('B', OTHER)], type: 'notify' })
  inbound.onMessages({ messages: [message('A', OTHER)], type: 'append' })
  await delay(10)
  assert.deepEqual(emitted.map(data => data['waMessageId']), ['A', 'B'])
  assert.deepEqual(settled, [])
  write()
  await delay(5)
  assert.deepEqual(settled.sort(), ['A', 'A', 'B'])
})

test('one message is one, by number or LID, also when the number was learned in between', async () => {
  const numbers: Record<string, string> = {}
  const { inbound, emitted } = start(numbers)
  inbound.onMessages({ messages: [message('A', OTHER_LID)], type: 'notify' })
  await delay(5)
  numbers[OTHER_LID] = OTHER
  inbound.onMessages({ messages: [message('A', OTHER_LID)], type: 'append' })
  inbound.onMessages({ messages: [message('A', OTHER, { remoteJidAlt: OTHER_LID })], type: 'append' })
  inbound.onMessages({ messages: [message('A', '972540000002@s.whatsapp.net')], type: 'notify' })
  await delay(10)
  assert.deepEqual(emitted.map(data => data['from']), [OTHER_LID, '972540000002'])
})

test('reported messages stay known when the file of the spool that held them is gone', async () => {
  const folder = newFolder('known')
  const open = (): { spool: Spool; reported: Reported } => {
    const reported = new Reported()
    const spool = Spool.open(folder, {
      maxBytes: 256 * 1024,
      onStored: ({ body }) => reported.addEvent(body),
      notes: () => reported.notes(),
      onNote: note => reported.addNote(note),
    })
    return { spool, reported }
  }
  const { spool, reported } = open()
  const total = 400
  for (let i = 0; i < total; i++) {
    const data = { waMessageId: `M${i}`, chat: OTHER, text: 'x'.repeat(100) }
    assert.equal(reported.add(data), true)
    await spool.append('MESSAGE_RECEIVED', () => JSON.stringify({ data }))
    for (let entry = spool.peek(); entry; entry = spool.peek()) spool.acknowledge(entry.seq)
  }
  const after = open()
  assert.equal(after.spool.pending, 0)
  const forgotten = Array.from({ length: 40 }, (_, i) => total - 1 - i).filter(i => after.reported.add({ waMessageId: `M${i}`, chat: OTHER }))
  assert.deepEqual(forgotten, [])
})
