import assert from 'node:assert/strict'
import { createCipheriv, createHash, createHmac, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { test } from 'node:test'
import { getMediaKeys } from 'baileys'
import { Journal } from '../src/journal.ts'
import { DamagedMedia, OpenMedia } from '../src/mediaCipher.ts'
import { addressOf, MediaGone } from '../src/mediaDownload.ts'
import { MediaJobs } from '../src/mediaJobs.ts'
import { newFolder } from './harness/folders.ts'

const sealed = async (plain: Buffer, key: Buffer): Promise<Buffer> => {
  const { cipherKey, iv, macKey } = await getMediaKeys(key, 'image')
  const cipher = createCipheriv('aes-256-cbc', cipherKey, iv)
  const bytes = Buffer.concat([cipher.update(plain), cipher.final()])
  return Buffer.concat([bytes, createHmac('sha256', macKey ?? '').update(iv).update(bytes).digest().subarray(0, 10)])
}

const pieces = (bytes: Buffer, size: number): Buffer[] =>
  Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size))

test('a file is opened in whatever pieces it comes', async () => {
  const key = randomBytes(32)
  for (const length of [0, 1, 15, 16, 1_000]) {
    const plain = randomBytes(length)
    const file = await sealed(plain, key)
    for (const size of [1, 7, 10, 11, 4_096]) {
      const opened = await OpenMedia.with(key, 'image', createHash('sha256').update(plain).digest('hex'))
      const [found] = await Promise.all([buffer(opened), pipeline(Readable.from(pieces(file, size)), opened)])
      assert.ok(found.equals(plain))
      assert.equal(opened.sizeBytes, length)
    }
  }
})

test('a file that was changed, cut short or swapped is refused', async () => {
  const key = randomBytes(32)
  const file = await sealed(randomBytes(500), key)
  const changed = Buffer.from(file)
  changed[100] = (changed[100] ?? 0) ^ 1
  const other = createHash('sha256').update('another file').digest('hex')
  for (const [bytes, sha256] of [[changed, undefined], [file.subarray(0, -1), undefined], [file.subarray(0, 5), undefined], [file, other]] as const) {
    const opened = await OpenMedia.with(key, 'image', sha256)
    opened.resume()
    await assert.rejects(pipeline(Readable.from([bytes]), opened), DamagedMedia)
  }
})

test('the sender chooses the path of a file and never its host', () => {
  const real = (directPath: string | undefined, url?: string): string =>
    addressOf({ ...(directPath === undefined ? {} : { directPath }), ...(url === undefined ? {} : { url }) }, undefined).href
  assert.equal(real('/v/t62.7118-24/abc?oh=1'), 'https://mmg.whatsapp.net/v/t62.7118-24/abc?oh=1')
  assert.equal(real(undefined, 'https://mmg.whatsapp.net/x'), 'https://mmg.whatsapp.net/x')
  assert.equal(real('/x', 'https://evil.example/y'), 'https://mmg.whatsapp.net/x')
  for (const path of ['https://evil.example/x', '//evil.example/x', 'http://mmg.whatsapp.net/x']) assert.throws(() => real(path), MediaGone)
  for (const url of ['https://evil.example/x', 'http://mmg.whatsapp.net/x', 'https://mmg.whatsapp.net:8443/x', 'nonsense']) {
    assert.throws(() => real(undefined, url), MediaGone)
  }
  assert.throws(() => addressOf({ url: 'https://evil.example/x' }, 'localhost'), MediaGone)
})

test('jobs survive a restart, are bounded, and end once their fate was told', async () => {
  const path = join(newFolder('jobs'), 'journal')
  const message = (n: number) => ({ imageMessage: { mediaKey: Buffer.alloc(32, n % 251), directPath: '/x', fileLength: 5 } })
  const media = { kind: 'image', mimetype: 'image/png', sizeBytes: 5 } as const
  let journal = await Journal.open(path)
  let jobs = new MediaJobs(journal, 10, new Set())
  const one = await jobs.keep('A', 'c', message(1), media)
  assert.deepEqual(await jobs.keep('A', 'c', message(1), media), one, 'a repeat is the same job')
  const two = await jobs.keep('B', 'c', message(2), media)
  assert.ok(one.state === 'pending' && two.state === 'pending')
  assert.equal((await jobs.keep('C', 'c', message(3), { ...media, sizeBytes: 11 })).state, 'too_large')
  assert.equal((await jobs.keep('C', 'c', { imageMessage: { mediaKey: Buffer.alloc(32) } }, media)).state, 'unavailable')
  assert.equal(jobs.next(0).job?.mediaId, one.mediaId)
  assert.equal((await jobs.begin(jobs.next(0).job!)).attempts, 1)
  await journal.close()

  journal = await Journal.open(path)
  jobs = new MediaJobs(journal, 10, new Set([two.mediaId]))
  assert.equal(jobs.size, 1)
  const { job } = jobs.next(0)
  assert.deepEqual([job?.mediaId, job?.attempts], [one.mediaId, 1])
  jobs.later(one.mediaId, 500)
  assert.deepEqual(jobs.next(400), { waitMs: 100 })
  await jobs.done(one.mediaId)
  assert.deepEqual(jobs.next(1_000), {})
  const states = await Promise.all(Array.from({ length: 1_010 }, (_, n) => jobs.keep(`M${n}`, 'c', message(n), media)))
  assert.equal(states.at(-1)?.state, 'unavailable')
  assert.equal(jobs.size, 1_000)
  await journal.close()
})
