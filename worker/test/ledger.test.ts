import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { Acks } from '../src/acks.ts'
import { Journal } from '../src/journal.ts'
import { keepLedgerEntry, Ledger } from '../src/ledger.ts'
import { MessageStore } from '../src/messageStore.ts'
import { RecentSet } from '../src/recentSet.ts'
import { newFolder } from './harness/folders.ts'

const DAY = 86_400_000
const newPath = (): string => join(newFolder('ledger'), 'journal')

test('what was sending, sent, looked up and carried out is known after a restart', async () => {
  const path = newPath()
  const first = await Journal.open(path)
  const ledger = new Ledger(first)
  await first.commit([ledger.sendingChange('A', 'msg_a', 1)])
  await first.commit([ledger.sendingChange('B', 'msg_b', 1)])
  await ledger.markSent('B', 'msg_b', 2)
  await ledger.rememberNumber('1@s.whatsapp.net', true, 0)
  await ledger.rememberNumber('2@s.whatsapp.net', false, 0)
  await ledger.markCommandDone('cmd', 0)
  const again = new Ledger(await Journal.open(path))
  assert.equal(again.message('A')?.state, 'sending')
  assert.deepEqual(again.message('B'), { state: 'sent', messageId: 'msg_b', at: 2 })
  assert.equal(again.message('C'), undefined)
  assert.equal(again.knownNumber('1@s.whatsapp.net', 5 * DAY), true)
  assert.equal(again.knownNumber('2@s.whatsapp.net', 0), false)
  assert.equal(again.knownNumber('2@s.whatsapp.net', 2 * DAY), undefined)
  assert.equal(again.commandDone('cmd'), true)
  await again.forget('A')
  assert.equal(again.message('A'), undefined)
})

test('old entries are let go', () => {
  assert.equal(keepLedgerEntry('sent:A', '{"at":0}', 13 * DAY), true)
  assert.equal(keepLedgerEntry('sent:A', '{"at":0}', 15 * DAY), false)
  assert.equal(keepLedgerEntry('done:A', '{"at":0}', 8 * DAY), false)
  assert.equal(keepLedgerEntry('number:A', '{"at":0,"exists":true}', 29 * DAY), true)
})

test('a sent message can be given again after a restart, and the store stays bounded', async () => {
  const path = newPath()
  const journal = await Journal.open(path)
  const store = new MessageStore(journal)
  for (let i = 0; i < 1_100; i++) await journal.commit(store.putChanges(`id${i}`, { conversation: `text ${i}` }, i))
  await journal.close()
  const again = new MessageStore(await Journal.open(path))
  assert.equal(again.get('id1099')?.conversation, 'text 1099')
  assert.equal(again.get('id100')?.conversation, 'text 100')
  assert.equal(again.get('id99'), undefined)
})

test('an acknowledgement reaches the one who waits, and only once', async () => {
  const acks = new Acks()
  const { result } = acks.expect('A', 1_000)
  assert.equal(acks.pending, 1)
  assert.equal(acks.arrived({ waMessageId: 'A', at: 5 }), true)
  assert.equal(acks.arrived({ waMessageId: 'A', at: 6 }), false)
  assert.deepEqual(await result, { waMessageId: 'A', at: 5 })
  const late = acks.expect('B', 10)
  assert.equal(await late.result, 'timeout')
  const lost = acks.expect('C', 1_000)
  acks.closeAll()
  assert.equal(await lost.result, 'closed')
  assert.equal(acks.pending, 0)
})

test('a recent set forgets the oldest', () => {
  const set = new RecentSet(2)
  assert.deepEqual(['a', 'b', 'a', 'c', 'a'].map(value => set.add(value)), [true, true, false, true, true])
})
