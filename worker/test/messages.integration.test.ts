import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import type { Content } from '../src/protocol.ts'
import { Stage } from './harness/stage.ts'
import { waitFor } from './harness/wait.ts'

const stage = new Stage('messages')
const PIXEL = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64')
const sha = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')
const shaOf = (media: unknown): string => {
  const text = String((media as { sha256?: unknown }).sha256)
  return /^[0-9a-f]{64}$/.test(text) ? text : Buffer.from(text, 'base64').toString('hex')
}

test('every kind of content arrives as it was meant', { timeout: 60_000 }, async () => {
  await stage.startPaired('kinds', '972500000301')
  const to = await stage.phone('972500000302', { autoReceipt: 'read' })
  const site = http.createServer((_, response) => response.writeHead(200, { 'content-type': 'image/png' }).end(PIXEL))
  await new Promise<void>(resolve => site.listen(0, '127.0.0.1', resolve))
  const { port } = site.address() as AddressInfo
  stage.plane.media.set('m1', PIXEL)
  const base64 = PIXEL.toString('base64')
  const send = async (content: Content, typingMs = 0): Promise<Record<string, unknown>> => {
    const message = stage.plane.enqueue(to, content, { checkExists: true, typingMs })
    const ack = await stage.plane.ack(message.messageId)
    assert.equal(ack.repeated, false)
    const entry = await stage.simulator.arrived('972500000302', message.waMessageId)
    assert.equal(entry.copies, 1)
    assert.equal(entry.kind, content.kind)
    return entry
  }
  const first = await send({ kind: 'text', text: 'שלום https://example.com', mentions: [to] }, 150)
  assert.equal(first['text'], 'שלום https://example.com')
  assert.deepEqual(first['mentions'], [to])
  const id = String(first['id'])
  const quoted = await send({ kind: 'text', text: 'again', quote: { waMessageId: id, fromMe: true, text: 'x' } })
  assert.equal(quoted['quotedId'], id)
  const image = await send({ kind: 'image', media: { url: `http://127.0.0.1:${port}/p.png` }, caption: 'look' })
  assert.equal(image['caption'], 'look')
  assert.equal(shaOf(image['media']), sha(PIXEL))
  assert.equal((image['media'] as { mimetype: string }).mimetype, 'image/png')
  assert.equal(shaOf((await send({ kind: 'video', media: { base64, mimetype: 'video/mp4' }, gif: true }))['media']), sha(PIXEL))
  assert.equal(shaOf((await send({ kind: 'audio', media: { base64 }, voice: true }))['media']), sha(PIXEL))
  const file = await send({ kind: 'document', media: { mediaId: 'm1', mimetype: 'application/pdf', fileName: 'a.pdf' } })
  assert.equal((file['media'] as { fileName: string }).fileName, 'a.pdf')
  assert.equal(shaOf((await send({ kind: 'sticker', media: { base64 } }))['media']), sha(PIXEL))
  const place = await send({ kind: 'location', latitude: 32.08, longitude: 34.78, name: 'Tel Aviv' })
  assert.deepEqual(place['location'], { latitude: 32.08, longitude: 34.78, name: 'Tel Aviv' })
  const card = await send({ kind: 'contact', contacts: [{ name: 'Dana', phone: '972500000303' }] })
  assert.match(JSON.stringify(card['contacts']), /waid=972500000303/)
  const reaction = await send({ kind: 'reaction', emoji: '👍', target: { waMessageId: id, fromMe: true } })
  assert.deepEqual(reaction['reaction'], { emoji: '👍', targetId: id })
  const poll = await send({ kind: 'poll', question: 'When?', options: ['today', 'tomorrow'], selectable: 1 })
  assert.deepEqual(poll['poll'], { question: 'When?', options: ['today', 'tomorrow'], selectable: 1 })
  for (const status of ['delivered', 'read']) {
    await stage.plane.event('MESSAGE_STATUS', data => data['waMessageId'] === id && data['status'] === status)
  }
  site.close()
  const stats = await stage.simulator.call<{ proxies: Array<{ hosts: unknown }> }>('GET', '/stats')
  assert.match(JSON.stringify(stats.proxies[0]?.hosts), /127\.0\.0\.1/, 'the picture came through the proxy')
})

test('what cannot be sent is refused with the right code', async () => {
  const env = { MAX_MEDIA_BYTES: '50', ACK_TIMEOUT_MS: '500' }
  await stage.startPaired('nacks', '972500000311', { env })
  const to = await stage.phone('972500000312', { autoReceipt: 'none' })
  const refused = async (content: Content, options: { checkExists?: boolean; to?: string } = {}): Promise<[string, boolean]> => {
    const message = stage.plane.enqueue(options.to ?? to, content, { checkExists: options.checkExists ?? false })
    const nack = await stage.plane.nack(message.messageId)
    return [nack.error?.code ?? '', nack.retryable ?? false]
  }
  const text: Content = { kind: 'text', text: 'hello' }
  const nobody = '972500000313@s.whatsapp.net'
  assert.deepEqual(await refused(text, { checkExists: true, to: nobody }), ['NOT_ON_WHATSAPP', false])
  // What is remembered about a number is asked anew when somebody drives the message again.
  await stage.phone('972500000313')
  assert.deepEqual(await refused(text, { checkExists: true, to: nobody }), ['NOT_ON_WHATSAPP', false])
  const again = stage.plane.enqueue(nobody, text, { checkExists: true, redriven: true })
  assert.equal((await stage.plane.ack(again.messageId)).repeated, false)
  assert.deepEqual(await refused({ kind: 'image', media: { base64: PIXEL.toString('base64') } }), ['MEDIA_TOO_LARGE', false])
  assert.deepEqual(await refused({ kind: 'image', media: { mediaId: 'none' } }), ['MEDIA_UNAVAILABLE', false])
  assert.deepEqual(await refused({ kind: 'image', media: { url: 'http://127.0.0.1:9/x' } }), ['MEDIA_UNAVAILABLE', true])
  for (const [code, expected] of [[463, ['RESTRICTED', true]], [429, ['RATE_LIMITED', true]], [400, ['WA_REJECTED', false]]] as const) {
    await stage.simulator.faults({ nackSends: code, count: 1 })
    assert.deepEqual(await refused(text), expected)
  }
  await stage.simulator.faults({ noAcks: true, count: 1 })
  assert.deepEqual(await refused(text), ['ACK_TIMEOUT', true])
  await stage.simulator.faults({ clear: true })
  assert.equal((await stage.plane.ack(stage.plane.enqueue(to, text).messageId)).repeated, false)
})

test('a late acknowledgement is told by an event, and the repeat is not sent', async () => {
  await stage.startPaired('late', '972500000321', { env: { ACK_TIMEOUT_MS: '300' } })
  const to = await stage.phone('972500000322', { autoReceipt: 'none' })
  await stage.simulator.faults({ ackDelayMs: 1_000, count: 1 })
  const message = stage.plane.enqueue(to, { kind: 'text', text: 'slow' })
  assert.equal((await stage.plane.nack(message.messageId)).error?.code, 'ACK_TIMEOUT')
  await stage.plane.event('MESSAGE_SENT', data => data['waMessageId'] === message.waMessageId)
  stage.plane.enqueue(to, message.content, { ...message, lease: { token: 't2', expiresAt: Date.now() + 60_000 } })
  assert.equal((await stage.plane.ack(message.messageId)).repeated, true)
  assert.equal((await stage.simulator.arrived('972500000322', message.waMessageId)).copies, 1)
})

test('incoming messages are reported once, with number and what they answer', async () => {
  const worker = await stage.startPaired('inbound', '972500000331')
  const from = '972500000332'
  await stage.phone(from)
  const phoneSends = (body: Record<string, unknown>): Promise<unknown> =>
    stage.simulator.call('POST', `/phones/${from}/send`, { to: '972500000331', ...body })
  const received = (test: (data: Record<string, unknown>) => boolean) => stage.plane.event('MESSAGE_RECEIVED', test)
  const sent = stage.plane.enqueue(`${from}@s.whatsapp.net`, { kind: 'text', text: 'question' })
  await stage.plane.ack(sent.messageId)
  await stage.simulator.arrived(from, sent.waMessageId)

  await phoneSends({ text: 'STOP' })
  const { data } = await received(one => one['text'] === 'STOP')
  assert.equal(data['from'], from)
  assert.equal(data['chat'], `${from}@s.whatsapp.net`)
  assert.equal(data['kind'], 'text')
  await phoneSends({ text: 'answer', quotedId: sent.waMessageId })
  const answer = (await received(one => one['text'] === 'answer')).data['replyTo'] as Record<string, unknown>
  assert.deepEqual([answer['waMessageId'], answer['text']], [sent.waMessageId, 'question'])

  const read = stage.plane.command('mark_read', { chat: `${from}@s.whatsapp.net`, waMessageIds: [data['waMessageId']] })
  assert.equal((await stage.plane.result(read))['ok'], true)
  const check = stage.plane.command('check_numbers', { phones: [from, '972599999998'] })
  const { numbers } = (await stage.plane.result(check))['result'] as { numbers: Array<{ exists: boolean; lid?: string }> }
  assert.deepEqual(numbers.map(number => number.exists), [true, false])

  await worker.kill()
  await phoneSends({ text: 'while away' })
  await stage.start('inbound', { keepPlane: true })
  assert.equal((await received(one => one['text'] === 'while away')).data['offline'], true)
  assert.doesNotMatch(worker.stderr, /STOP|answer|972500000332/)
  assert.doesNotMatch(worker.stderr, /privKey|SessionEntry/)
})

test('presence and the message to itself keep the session alive', async () => {
  await stage.startPaired('alive', '972500000341', { env: { PRESENCE_INTERVAL_MS: '200', SELF_MESSAGE_INTERVAL_MS: '400' } })
  const note = await waitFor('the note to itself', async () =>
    (await stage.simulator.inbox('972500000341')).find(entry => entry.text === 'keep-alive'),
  )
  assert.equal(note.copies, 1)
  assert.equal(stage.plane.ofType('MESSAGE_RECEIVED').length, 0)
  assert.equal(stage.plane.ofType('MESSAGE_STATUS').length, 0)
})
