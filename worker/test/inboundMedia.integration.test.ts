import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { Stage } from './harness/stage.ts'
import { waitFor } from './harness/wait.ts'

const stage = new Stage('inbound-media')
const sha = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

type Data = Record<string, unknown>
interface Media {
  kind: string
  mimetype: string
  sizeBytes: number
  sha256: string
  state: string
  mediaId: string
}

/** A phone that writes to the session. */
const writer = async (from: string, to: string) => {
  await stage.phone(from)
  const call = async (what: string, body: Data): Promise<string> =>
    (await stage.simulator.call<{ id: string }>('POST', `/phones/${from}/${what}`, { to, ...body })).id
  const received = async (id: string): Promise<Data> =>
    (await stage.plane.event('MESSAGE_RECEIVED', data => data['waMessageId'] === id)).data
  return { send: (body: Data) => call('send', body), call, received }
}

const downloads = async (): Promise<number> => (await stage.simulator.call<{ mediaDownloads: number }>('GET', '/stats')).mediaDownloads
const mediaOf = (data: Data): Media => data['media'] as Media
const ready = (mediaId: string): Promise<{ data: Data }> => stage.plane.event('MEDIA_READY', data => data['mediaId'] === mediaId)
const failed = (mediaId: string): Promise<{ data: Data }> => stage.plane.event('MEDIA_FAILED', data => data['mediaId'] === mediaId)

test('every kind of message is told with what belongs to it, and files arrive byte for byte', { timeout: 60_000 }, async () => {
  const me = '972500000501'
  const from = '972500000502'
  await stage.startPaired('kinds-in', me)
  const { send, call, received } = await writer(from, me)

  const first = await send({ text: 'hello' })
  const told = await received(first)
  assert.equal(told['from'], from)
  assert.match(String(told['fromLid']), /@lid$/)
  assert.deepEqual([told['chat'], told['isGroup'], told['pushName']], [`${from}@s.whatsapp.net`, false, 'Phone 0502'])
  const byLid = await received(await send({ text: 'under another name', byLid: true }))
  assert.deepEqual([byLid['from'], byLid['fromLid'], byLid['chat']], [from, told['fromLid'], told['chat']])

  for (const [kind, more] of [
    ['image', { mimetype: 'image/png' }],
    ['video', { seconds: 7 }],
    ['audio', {}],
    ['voice', { seconds: 3 }],
    ['document', { fileName: 'חשבונית.pdf', mimetype: 'application/pdf' }],
    ['sticker', {}],
  ] as const) {
    const bytes = randomBytes(20_000 + kind.length)
    const id = await send({ [kind]: { base64: bytes.toString('base64'), ...more }, ...(kind === 'image' ? { caption: 'look', quotedId: first } : {}) })
    const data = await received(id)
    const media = mediaOf(data)
    assert.equal(data['kind'], kind === 'voice' ? 'audio' : kind)
    assert.deepEqual([media.sizeBytes, media.sha256, media.state], [bytes.length, sha(bytes), 'pending'])
    if (kind === 'image') assert.deepEqual([data['text'], (data['replyTo'] as Data)['waMessageId']], ['look', first])
    if (kind === 'voice') assert.deepEqual([(media as unknown as Data)['voice'], (media as unknown as Data)['durationS']], [true, 3])
    if (kind === 'document') assert.equal((media as unknown as Data)['fileName'], 'חשבונית.pdf')
    const { data: done } = await ready(media.mediaId)
    assert.deepEqual([done['waMessageId'], done['sha256'], done['sizeBytes']], [id, sha(bytes), bytes.length])
    assert.ok(stage.plane.uploads.get(media.mediaId)?.equals(bytes), `${kind} arrived as it was sent`)
  }

  assert.deepEqual((await received(await call('react', { id: first, emoji: '❤️' })))['reaction'], { waMessageId: first, emoji: '❤️' })
  assert.deepEqual((await received(await call('react', { id: first, emoji: '' })))['reaction'], { waMessageId: first, emoji: '' })
  assert.deepEqual((await received(await call('edit', { id: first, text: 'hallo' })))['edit'], { waMessageId: first, text: 'hallo' })
  assert.deepEqual((await received(await call('delete', { id: first })))['deletion'], { waMessageId: first })
  const place = { latitude: 32.08, longitude: 34.78, name: 'Tel Aviv' }
  assert.deepEqual((await received(await send({ location: place })))['location'], place)
  const card = { name: 'Dana', vcard: 'BEGIN:VCARD\nFN:Dana\nEND:VCARD' }
  assert.deepEqual((await received(await send({ contact: card })))['contacts'], [card])

  const poll = stage.plane.enqueue(`${from}@s.whatsapp.net`, { kind: 'poll', question: 'When?', options: ['today', 'later'], selectable: 1 })
  await stage.plane.ack(poll.messageId)
  await stage.simulator.arrived(from, poll.waMessageId)
  const vote = await received(await call('vote', { id: poll.waMessageId, options: ['later'] }))
  assert.deepEqual([vote['kind'], vote['pollVote']], ['poll_vote', { waMessageId: poll.waMessageId, options: ['later'] }])

  const { hosts } = (await stage.simulator.call<{ proxies: Array<{ hosts: Array<{ port: number }> }> }>('GET', '/stats')).proxies[0] ?? {}
  const mediaPort = Number(stage.simulator.ready.mediaHost.split(':')[1])
  assert.equal(hosts?.filter(({ port }) => port === mediaPort).length, 6, 'each file came through the proxy')
})

test('a file that is too large is told and not fetched', async () => {
  const me = '972500000511'
  await stage.startPaired('limits-in', me, { env: { INBOUND_MEDIA_MAX_BYTES: '1000' } })
  const { send, received } = await writer('972500000512', me)
  const before = await downloads()
  const large = mediaOf(await received(await send({ image: { base64: randomBytes(1001).toString('base64') } })))
  const small = mediaOf(await received(await send({ image: { base64: randomBytes(1000).toString('base64') } })))
  assert.deepEqual([small.state, large.state, large.mediaId], ['pending', 'too_large', undefined])
  await ready(small.mediaId)
  assert.equal(await downloads(), before + 1)
})

test('with downloads switched off only the message is told', async () => {
  const me = '972500000513'
  await stage.startPaired('off-in', me, { env: { INBOUND_MEDIA_MAX_BYTES: '0' } })
  const { send, received } = await writer('972500000512', me)
  const before = await downloads()
  const off = mediaOf(await received(await send({ image: { base64: randomBytes(10).toString('base64') } })))
  assert.deepEqual([off.state, off.mediaId], ['off', undefined])
  await received(await send({ text: 'and on' }))
  assert.equal(await downloads(), before)
})

test('a file that cannot be had is told as failed; a passing fault is not', { timeout: 60_000 }, async () => {
  const me = '972500000521'
  await stage.startPaired('faults-in', me)
  const { send, received } = await writer('972500000522', me)
  const picture = (more: Data = {}): Promise<string> => send({ image: { base64: randomBytes(5_000).toString('base64'), ...more } })

  await stage.simulator.faults({ mediaStatus: 404, count: 1 })
  const lost = mediaOf(await received(await picture()))
  assert.equal(((await failed(lost.mediaId)).data['error'] as Data)['code'], 'EXPIRED')
  await stage.simulator.faults({ mediaStatus: 500, count: 1 })
  const late = mediaOf(await received(await picture()))
  const next = mediaOf(await received(await picture()))
  await ready(next.mediaId)
  await ready(late.mediaId)
  const swapped = mediaOf(await received(await picture({ wrongHash: true })))
  assert.equal(((await failed(swapped.mediaId)).data['error'] as Data)['code'], 'DAMAGED')
  assert.equal(stage.plane.uploads.has(swapped.mediaId), false)

  stage.plane.uploadStatus = 413
  const refused = mediaOf(await received(await picture()))
  assert.equal(((await failed(refused.mediaId)).data['error'] as Data)['code'], 'TOO_LARGE')
})

test('a worker killed in the middle of a download finishes it after its restart', { timeout: 60_000 }, async () => {
  const me = '972500000531'
  const worker = await stage.startPaired('killed-in', me)
  const { send, received } = await writer('972500000532', me)
  const bytes = randomBytes(400_000)
  await stage.simulator.faults({ mediaStallMs: 60_000, count: 1 })
  const media = mediaOf(await received(await send({ document: { base64: bytes.toString('base64'), fileName: 'a.bin' } })))
  const tmp = join(stage.folder, 'killed-in', 'tmp')
  await waitFor('half of the file', () => existsSync(tmp) && readdirSync(tmp).some(name => name.endsWith('.inbound')))
  await worker.kill('SIGKILL')
  assert.equal(stage.plane.uploads.size, 0)
  await stage.start('killed-in', { keepPlane: true })
  await ready(media.mediaId)
  assert.ok(stage.plane.uploads.get(media.mediaId)?.equals(bytes))
  await waitFor('the file to be removed here', () => !readdirSync(tmp).some(name => name.endsWith('.inbound')))
  assert.equal(stage.plane.ofType('MESSAGE_RECEIVED').length, 1, 'told once')
})

test('while the control plane is away files wait, and nothing is told twice', { timeout: 60_000 }, async () => {
  const me = '972500000541'
  await stage.startPaired('away-in', me)
  const { send } = await writer('972500000542', me)
  await stage.plane.stop()
  const bytes = randomBytes(9_000)
  const before = await downloads()
  const id = await send({ image: { base64: bytes.toString('base64') } })
  await waitFor('the download', async () => (await downloads()) > before)
  await stage.plane.start()
  const event = await stage.plane.event('MESSAGE_RECEIVED', data => data['waMessageId'] === id)
  await ready(mediaOf(event.data).mediaId)
  assert.ok(stage.plane.uploads.get(mediaOf(event.data).mediaId)?.equals(bytes))
  assert.deepEqual(stage.plane.events.map(one => one.type).filter(type => /RECEIVED|MEDIA/.test(type)), ['MESSAGE_RECEIVED', 'MEDIA_READY'])
})

test('a message whose lease ran out while its media was fetched is not sent', { timeout: 60_000 }, async () => {
  await stage.startPaired('lease', '972500000551')
  const to = await stage.phone('972500000552')
  const site = http.createServer((_, response) => void delay(1_500).then(() => response.writeHead(200, { 'content-type': 'image/png' }).end('x')))
  await new Promise<void>(resolve => site.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(site.address() as AddressInfo).port}/p.png`
  const late = stage.plane.enqueue(to, { kind: 'image', media: { url } }, { lease: { token: 't', expiresAt: Date.now() + 2_000 } })
  const next = stage.plane.enqueue(to, { kind: 'text', text: 'next' })
  await stage.plane.ack(next.messageId)
  site.close()
  assert.deepEqual((await stage.simulator.inbox('972500000552')).map(entry => entry.text), ['next'])
  assert.equal([...stage.plane.acks, ...stage.plane.nacks].some(word => word.messageId === late.messageId), false)
})
