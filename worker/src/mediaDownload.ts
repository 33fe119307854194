/** Fetches one file of an incoming message from WhatsApp's media host, through the proxy, and opens it into a file. */
import { createWriteStream } from 'node:fs'
import https from 'node:https'
import type { IncomingMessage } from 'node:http'
import { rm } from 'node:fs/promises'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Egress } from './egress.ts'
import { OpenMedia } from './mediaCipher.ts'
import type { MediaJob } from './mediaJobs.ts'

export interface DownloadOptions {
  readonly agent: Egress['uploads']
  readonly maxBytes: number
  /** Another server than WhatsApp's own (tests): its media host has this name, any port. */
  readonly otherHost: string | undefined
  readonly signal: AbortSignal
}

export interface Downloaded {
  readonly sizeBytes: number
  readonly sha256: string
}

export type MediaFailure = 'EXPIRED' | 'TOO_LARGE' | 'DAMAGED' | 'UNAVAILABLE' | 'REFUSED'

/** The end of the story: trying again cannot help. */
export class MediaGone extends Error {
  readonly code: MediaFailure

  constructor(code: MediaFailure, message: string) {
    super(message)
    this.code = code
  }
}

const MEDIA_HOST = 'mmg.whatsapp.net'
/** Nothing at all for so long: the proxy or the host is stuck. */
const SILENCE_MS = 30_000
const WHOLE_MS = 600_000
/** Padding and check sum. */
const MORE_THAN_PLAIN = 64
const EXPIRED = new Set([403, 404, 410])

/**
 * The sender writes the address into the message, so it decides the path and never the host: otherwise a message could
 * send us anywhere.
 */
export const addressOf = ({ directPath, url }: Pick<MediaJob, 'directPath' | 'url'>, otherHost: string | undefined): URL => {
  const foreign = new MediaGone('REFUSED', 'the message names a file on a foreign host')
  let given: URL
  try {
    given = otherHost === undefined && directPath ? new URL(directPath, `https://${MEDIA_HOST}`) : new URL(url ?? '')
  } catch {
    throw foreign
  }
  const allowed = otherHost === undefined ? given.host === MEDIA_HOST : given.hostname === otherHost
  if (!allowed || given.protocol !== 'https:') throw foreign
  return given
}

const bounded = (maxBytes: number): Transform => {
  let size = 0
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      size += chunk.length
      if (size > maxBytes + MORE_THAN_PLAIN) done(new MediaGone('TOO_LARGE', `the file has more than ${maxBytes} bytes`))
      else done(null, chunk)
    },
  })
}

const request = (url: URL, { agent, signal }: DownloadOptions): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(WHOLE_MS)])
    const sent = https.get(url, { agent, signal: limit, headers: { origin: 'https://web.whatsapp.com' } }, resolve)
    sent.setTimeout(SILENCE_MS, () => sent.destroy(new Error('the media host went silent')))
    sent.on('error', reject)
  })

/** Throws MediaGone when trying again is no use; any other error may pass. Leaves no file behind when it throws. */
export const downloadMedia = async (job: MediaJob, path: string, options: DownloadOptions): Promise<Downloaded> => {
  const response = await request(addressOf(job, options.otherHost), options)
  const status = response.statusCode ?? 0
  if (status !== 200) {
    response.resume()
    if (EXPIRED.has(status)) throw new MediaGone('EXPIRED', `WhatsApp no longer has the file (${status})`)
    throw new Error(`the media host answered ${status}`)
  }
  const opened = await OpenMedia.with(Buffer.from(job.mediaKey, 'base64'), job.kind, job.sha256)
  try {
    await pipeline(response, bounded(options.maxBytes), opened, createWriteStream(path, { mode: 0o600 }))
  } catch (error) {
    await rm(path, { force: true })
    throw error
  }
  return { sizeBytes: opened.sizeBytes, sha256: opened.sha256 }
}
