import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { Stage } from './harness/stage.ts'
import { waitFor } from './harness/wait.ts'

const stage = new Stage('durability')

test('events survive a control plane that is away and a killed worker, in order', async () => {
  const worker = await stage.startPaired('spool', '972500000401')
  await stage.phone('972500000402')
  const before = stage.plane.events.length
  await stage.plane.stop()
  for (let i = 0; i < 20; i++) {
    await stage.simulator.call('POST', '/phones/972500000402/send', { to: '972500000401', text: `n${i}` })
  }
  await waitFor('the phone to have sent', async () =>
    (await stage.simulator.call<Array<{ status: string }>>('GET', '/phones/972500000402/sent')).every(one => one.status === 'delivered'),
  )
  await delay(200)
  await worker.kill()
  await stage.plane.start()
  await stage.start('spool', { keepPlane: true })
  await waitFor('all of them', () => stage.plane.ofType('MESSAGE_RECEIVED').length >= 20)
  const texts = stage.plane.events.slice(before).filter(event => event.type === 'MESSAGE_RECEIVED').map(event => event.data['text'])
  assert.deepEqual(texts, Array.from({ length: 20 }, (_, i) => `n${i}`))
})

test('a webhook that refuses the signature gets the events when it accepts it again', async () => {
  await stage.startPaired('rude', '972500000403')
  await stage.phone('972500000404')
  stage.plane.eventStatus = 401
  await stage.simulator.call('POST', '/phones/972500000404/send', { to: '972500000403', text: 'kept' })
  await delay(700)
  stage.plane.eventStatus = 200
  await stage.plane.event('MESSAGE_RECEIVED', data => data['text'] === 'kept')
})

test('the first claim of a run, and one after a lost answer, say that nothing is in hand', async () => {
  const worker = await stage.startPaired('hands', '972500000481')
  const plane = stage.plane
  const to = await stage.phone('972500000482', { autoReceipt: 'none' })
  const said = async (what: string): Promise<boolean> => {
    await waitFor(what, () => plane.claims.some(claim => claim.max > 0))
    return plane.claims.find(claim => claim.max > 0)?.emptyHanded === true
  }
  assert.equal(await said('the first claim'), true)
  plane.claims.length = 0
  await plane.ack(plane.enqueue(to, { kind: 'text', text: 'one' }).messageId)
  assert.equal(await said('a claim after an answered one'), false)
  await plane.stop()
  plane.claims.length = 0
  await plane.start()
  assert.equal(await said('a claim after the break'), true)
  await worker.kill()
  plane.claims.length = 0
  await stage.start('hands', { keepPlane: true })
  assert.equal(await said('the first claim of the next run'), true)
})

test('a worker killed before the acknowledgement sends again under the same id; killed after it, not at all', async () => {
  const worker = await stage.startPaired('ledger', '972500000405')
  const to = await stage.phone('972500000406', { autoReceipt: 'none' })
  const sent = stage.plane.enqueue(to, { kind: 'text', text: 'once' })
  await stage.plane.ack(sent.messageId)
  await stage.simulator.faults({ noAcks: true, phone: '972500000405' })
  const doubt = stage.plane.enqueue(to, { kind: 'text', text: 'in doubt' })
  await stage.simulator.arrived('972500000406', doubt.waMessageId)
  await worker.kill()
  await stage.simulator.faults({ clear: true })
  stage.plane.acks.length = 0
  const lease = { token: 'again', expiresAt: Date.now() + 60_000 }
  stage.plane.enqueue(to, sent.content, { ...sent, lease })
  stage.plane.enqueue(to, doubt.content, { ...doubt, lease })
  await stage.start('ledger', { keepPlane: true })
  assert.equal((await stage.plane.ack(sent.messageId)).repeated, true)
  await stage.plane.ack(doubt.messageId)
  const inbox = await stage.simulator.inbox('972500000406')
  assert.deepEqual(inbox.map(entry => [entry.text, entry.copies]).sort(), [['in doubt', 2], ['once', 1]])
})

test('eight kills at random moments of sending: back connected each time, every message shown once', { timeout: 60_000 }, async () => {
  const phone = '972500000407'
  let worker = await stage.startPaired('chaos', phone)
  const to = await stage.phone('972500000408')
  const expected: string[] = []
  for (let round = 0; round < 8; round++) {
    const messages = Array.from({ length: 6 }, (_, i) => stage.plane.enqueue(to, { kind: 'text', text: `r${round}m${i}` }))
    expected.push(...messages.map(message => message.content.kind === 'text' ? message.content.text : ''))
    await waitFor('the first ack', () => stage.plane.acks.some(ack => ack.messageId === messages[0]?.messageId))
    await delay(Math.random() * 120)
    await worker.kill()
    worker = await stage.start('chaos', { keepPlane: true })
    await stage.connectedAgain(round + 2)
    // The control plane's part: what was not acknowledged is leased again.
    for (const message of messages) {
      if (stage.plane.acks.some(ack => ack.messageId === message.messageId)) continue
      stage.plane.enqueue(to, message.content, { ...message, lease: { token: `r${round}`, expiresAt: Date.now() + 60_000 } })
    }
    await Promise.all(messages.map(message => stage.plane.ack(message.messageId)))
  }
  const inbox = await stage.simulator.inbox('972500000408')
  assert.deepEqual(inbox.map(entry => entry.text).sort(), expected.sort())
  assert.ok(inbox.every(entry => entry['error'] === undefined))
  assert.equal(stage.plane.ofType('QR_CODE').length, 1)
  const delivered = (): Set<unknown> =>
    new Set(stage.plane.ofType('MESSAGE_STATUS').filter(event => event.data['status'] === 'delivered').map(event => event.data['waMessageId']))
  await waitFor('every delivery receipt', () => inbox.every(entry => delivered().has(entry.id)))
})

test('killed when WhatsApp was told that a message arrived and its event was not written: reported after all, once', async () => {
  const worker = await stage.startPaired('untold', '972500000415')
  await stage.phone('972500000416')
  await stage.plane.stop()
  const folder = join(stage.folder, 'untold', 'events')
  const file = join(folder, readdirSync(folder).filter(name => name.endsWith('.log')).at(-1) ?? '')
  await delay(200)
  const { size } = statSync(file)
  await stage.simulator.call('POST', '/phones/972500000416/send', { to: '972500000415', text: 'told' })
  // The receipt has left by then.
  await waitFor('the event', () => statSync(file).size > size)
  await worker.kill()
  // As if the kill had come before the write.
  truncateSync(file, size)
  await stage.plane.start()
  await stage.start('untold', { keepPlane: true })
  await stage.plane.event('MESSAGE_RECEIVED', data => data['text'] === 'told' && data['from'] === '972500000416')
  await stage.connectedAgain(2)
  await stage.simulator.call('POST', '/phones/972500000416/send', { to: '972500000415', text: 'next' })
  await stage.plane.event('MESSAGE_RECEIVED', data => data['text'] === 'next')
  assert.deepEqual(stage.plane.ofType('MESSAGE_RECEIVED').map(event => event.data['text']), ['told', 'next'])
})

test('ten kills at random moments of receiving: every message is reported, and none twice', { timeout: 60_000 }, async () => {
  const phone = '972500000417'
  let worker = await stage.startPaired('inbound', phone)
  const writers = ['972500000418', '972500000419']
  for (const writer of writers) await stage.phone(writer)
  const expected: string[] = []
  for (let round = 0; round < 10; round++) {
    for (let i = 0; i < 6; i++) {
      const text = `r${round}m${i}`
      expected.push(text)
      await stage.simulator.call('POST', `/phones/${writers[i % 2]}/send`, { to: phone, text })
    }
    await delay(Math.random() * 50)
    await worker.kill()
    worker = await stage.start('inbound', { keepPlane: true })
    await stage.connectedAgain(round + 2)
  }
  const texts = (): unknown[] => stage.plane.ofType('MESSAGE_RECEIVED').map(event => event.data['text'])
  await waitFor('all of them', () => new Set(texts()).size === expected.length)
  await delay(300)
  assert.deepEqual(texts().sort(), expected.sort())
})

test('SIGTERM lets the message in hand finish and leaves nothing behind', async () => {
  const worker = await stage.startPaired('stop', '972500000409')
  const to = await stage.phone('972500000410')
  const message = stage.plane.enqueue(to, { kind: 'text', text: 'last' }, { typingMs: 1_500 })
  await waitFor('typing', async () => {
    const { typing } = await stage.simulator.call<{ typing: unknown }>('GET', '/phones/972500000410')
    return typing !== null
  })
  const before = Date.now()
  assert.equal(await worker.kill('SIGTERM'), 0)
  assert.ok(Date.now() - before < 10_000)
  assert.equal(stage.plane.acks.at(-1)?.messageId, message.messageId)
})

test('after an older backup was restored the phone asks again and gets the message', async () => {
  const worker = await stage.startPaired('rewind', '972500000411')
  const to = await stage.phone('972500000412')
  const journal = join(stage.folder, 'rewind', 'auth', 'journal')
  await stage.plane.ack(stage.plane.enqueue(to, { kind: 'text', text: 'one' }).messageId)
  await stage.simulator.arrived('972500000412', '3EB00000000000000001')
  await delay(200)
  const older = readFileSync(journal)
  await stage.plane.ack(stage.plane.enqueue(to, { kind: 'text', text: 'two' }).messageId)
  await worker.kill('SIGTERM')
  writeFileSync(journal, older)
  await stage.start('rewind', { keepPlane: true })
  const third = stage.plane.enqueue(to, { kind: 'text', text: 'three' })
  await stage.plane.ack(third.messageId)
  const entry = await waitFor('the third message', async () =>
    (await stage.simulator.inbox('972500000412')).find(one => one.id === third.waMessageId && one.text === 'three'),
  )
  assert.equal(entry['error'], undefined)
})

test('a worker whose launcher is gone goes on working', async () => {
  const worker = await stage.startPaired('orphan', '972500000413')
  const to = await stage.phone('972500000414')
  // What a dead parent leaves behind: closed pipes and, from a terminal, a hang-up.
  worker.child.stderr?.destroy()
  worker.child.stdout?.destroy()
  worker.child.kill('SIGHUP')
  await stage.plane.ack(stage.plane.enqueue(to, { kind: 'text', text: 'still here' }).messageId)
  assert.equal(worker.child.exitCode, null)
})
