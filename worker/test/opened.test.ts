import assert from 'node:assert/strict'
import { cpSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { proto, unpadRandomMax16, type BinaryNode } from 'baileys'
import { AuthState } from '../src/authState.ts'
import { Inbound } from '../src/inbound.ts'
import { exportMultiFile } from '../src/multiFile.ts'
import { Reported } from '../src/reported.ts'
import { Spool } from '../src/spool.ts'
import { newFolder } from './harness/folders.ts'
import { converse, GROUP, quiet, receive, receiveInGroup, SENDER, writeInGroup } from './harness/signal.ts'
import { waitFor } from './harness/wait.ts'

/** The folder as it is on disk now: what a process finds after kill -9. */
const afterKill = async (folder: string): Promise<{ folder: string; auth: AuthState }> => {
  const copy = newFolder('killed')
  cpSync(folder, copy, { recursive: true })
  return { folder: copy, auth: await AuthState.open(copy) }
}

const textOf = (plaintext: Uint8Array): string => proto.Message.decode(unpadRandomMax16(plaintext)).conversation ?? ''

/** Everything between the socket and the disk, on the folder of one conversation; nothing is delivered. */
const startInbound = (auth: AuthState, events: string) => {
  const reported = new Reported()
  const bodies: string[] = []
  const spool = Spool.open(events, {
    maxBytes: 1024 * 1024,
    onStored: ({ body }) => {
      bodies.push(body)
      reported.addEvent(body)
    },
  })
  const inbound = new Inbound({
    reporter: { emit: (type, data) => spool.append(type, seq => JSON.stringify({ type, seq, data })) },
    reported,
    opened: auth.opened,
    me: () => auth.creds.me,
    phoneJidOf: lid => auth.phoneJidOf(lid),
    media: { keep: async () => ({ state: 'off' }) },
    sentMessage: () => undefined,
    log: quiet,
  })
  for (const leftover of auth.opened.leftovers()) inbound.onLeftover(leftover)
  return { spool, inbound, ids: () => bodies.map(body => (JSON.parse(body) as { data: { waMessageId: string } }).data.waMessageId) }
}

const storedIn = async (events: string): Promise<string[]> => startInbound(await AuthState.open(newFolder('empty')), events).ids()

test('killed between the ratchet step and the spool: delivered again, it is answered from the journal', async () => {
  const { folder, auth, write } = await converse()
  const first = await write('A1', { conversation: 'first' })
  assert.equal(textOf(await receive(auth, first())), 'first')
  const killed = await afterKill(folder)
  assert.equal(textOf(await receive(killed.auth, first())), 'first')
  // The ratchet step itself was on disk, as without it the session would be behind.
  await assert.rejects(receive((await afterKill(folder)).auth, first(), { announce: false }))
  const second = await write('A2', { conversation: 'second' })
  assert.equal(textOf(await receive(killed.auth, second())), 'second')
})

test('the same bytes under another id or from another stanza are not answered', async () => {
  const { auth, write } = await converse()
  const stanza = (await write('A1', { conversation: 'first' }))()
  await receive(auth, stanza)
  const [enc] = stanza.content as BinaryNode[]
  for (const change of [{ id: 'A2' }, { participant: SENDER }]) {
    const forged = { ...stanza, attrs: { ...stanza.attrs, ...change }, content: [{ ...enc, content: Buffer.from(enc?.content as Buffer) }] }
    await assert.rejects(receive(auth, forged as BinaryNode))
  }
})

test('killed after the receipt and before the spool: reported at the next start, once, whatever comes after', async () => {
  const { folder, auth, write } = await converse()
  const stanza = await write('B1', { conversation: 'told to be received' })
  await receive(auth, stanza())
  const events = newFolder('events')
  const next = await afterKill(folder)
  const first = startInbound(next.auth, events)
  await waitFor('the event', () => first.spool.pending === 1)
  assert.deepEqual(await storedIn(events), ['B1'])
  // Killed again before the clearing is on disk, and once more after it: the spool knows it.
  const again = await afterKill(folder)
  const second = startInbound(again.auth, events)
  await waitFor('it to be settled', () => again.auth.opened.takeChanges().length > 0)
  assert.equal(second.spool.pending, 1)
  // Delivered again after all: Baileys gets something to send a receipt for, and we nothing to report.
  assert.equal(textOf(await receive(again.auth, stanza())), '')
  assert.deepEqual(await storedIn(events), ['B1'])
})

test('a message in a group is kept and reported like any other', async () => {
  const { folder, auth } = await converse()
  const { stanza, key } = await writeInGroup('G1', { conversation: 'to all' })
  assert.equal(textOf(await receiveInGroup(auth, stanza(), key)), 'to all')
  assert.equal(textOf(await receiveInGroup((await afterKill(folder)).auth, stanza())), 'to all')
  const events = newFolder('events')
  const { spool } = startInbound((await afterKill(folder)).auth, events)
  await waitFor('the event', () => spool.pending === 1)
  const { data } = JSON.parse(spool.peek()?.body ?? '') as { data: Record<string, unknown> }
  assert.deepEqual([data['chat'], data['from'], data['text']], [GROUP, '972540000001', 'to all'])
})

test('the text is cleared when the event is in the spool; only its name is kept, and neither is exported', async () => {
  const { folder, auth, write } = await converse()
  const stanza = await write('C1', { conversation: 'a secret text' })
  const plaintext = await receive(auth, stanza())
  const secret = Buffer.from(plaintext).toString('base64')
  assert.ok(readFileSync(join(folder, 'journal'), 'utf8').includes(secret))
  const killed = await afterKill(folder)
  const { inbound } = startInbound(auth, newFolder('events'))
  inbound.onMessages({ messages: [{ key: { id: 'C1', remoteJid: SENDER }, message: { conversation: 'a secret text' } }], type: 'notify' })
  await delay(1_300)
  const cleared = await afterKill(folder)
  assert.equal(readFileSync(join(cleared.folder, 'journal'), 'utf8').includes(secret), false)
  assert.deepEqual(cleared.auth.opened.leftovers(), [])
  assert.equal(textOf(await receive(cleared.auth, stanza())), '')
  for (const one of [killed, cleared]) {
    const out = newFolder('export')
    exportMultiFile(one.folder, out)
    assert.deepEqual(readdirSync(out).filter(name => name.startsWith('opened')), [])
    assert.equal(readdirSync(out).some(name => readFileSync(join(out, name), 'utf8').includes(secret)), false)
  }
})

test('what is not to be reported is kept until Baileys has handled it', async () => {
  const { folder, auth, write } = await converse()
  const leftAfterKill = async (): Promise<unknown[]> => (await afterKill(folder)).auth.opened.leftovers().map(one => one.attrs['id'])
  const { inbound } = startInbound(auth, newFolder('events'))
  await receive(auth, (await write('D1', { protocolMessage: { type: proto.Message.ProtocolMessage.Type.APP_STATE_SYNC_KEY_SHARE } }))())
  inbound.onMessages({ messages: [{ key: { id: 'D1', remoteJid: SENDER, fromMe: true } }], type: 'notify' })
  await delay(1_200)
  assert.deepEqual(await leftAfterKill(), ['D1'])
  await receive(auth, (await write('D2', { conversation: 'next' }))())
  await delay(1_200)
  assert.deepEqual(await leftAfterKill(), ['D2'])
})

test('what is kept is bounded', async () => {
  const { folder, auth } = await converse()
  const stanzas = Array.from({ length: 1_300 }, (_, i): BinaryNode => ({
    tag: 'message',
    attrs: { id: `E${i}`, from: SENDER },
    content: [{ tag: 'enc', attrs: {}, content: Buffer.from(String(i)) }],
  }))
  for (const stanza of stanzas) {
    auth.opened.announce(stanza)
    const [enc] = stanza.content as BinaryNode[]
    await auth.keys.set(auth.opened.record(enc?.content as Buffer, Buffer.from('x')) ?? {})
  }
  const left = auth.opened.leftovers()
  assert.equal(left.length, 1_000)
  assert.equal(left[0]?.attrs['id'], 'E300')
  for (const one of left) one.settle()
  await auth.close()
  const keys = [...readFileSync(join((await afterKill(folder)).folder, 'journal'), 'utf8').matchAll(/^opened-/gm)]
  assert.equal(keys.length, 200)
})
