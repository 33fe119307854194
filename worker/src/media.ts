/** Brings the media of a message into a file of the session's own folder: by URL (through the proxy), base64 or mediaId. */
import { createWriteStream } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Api } from './api.ts'
import type { MediaFile } from './content.ts'
import { errorText } from './log.ts'
import { SendFailure, type MediaSource } from './protocol.ts'
import { findProxyError } from './proxyErrors.ts'

const DOWNLOAD_TIMEOUT_MS = 120_000

export interface MediaOptions {
  readonly api: Api
  readonly folder: string
  readonly maxBytes: number
  readonly fetchOptions: RequestInit
}

const tooLarge = (maxBytes: number): SendFailure =>
  new SendFailure('MEDIA_TOO_LARGE', `the media has more than ${maxBytes} bytes`)

const unavailable = (message: string, retryable: boolean): SendFailure =>
  new SendFailure('MEDIA_UNAVAILABLE', message, { retryable })

const limited = (maxBytes: number): Transform => {
  let size = 0
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      size += chunk.length
      if (size > maxBytes) done(tooLarge(maxBytes))
      else done(null, chunk)
    },
  })
}

const download = async (url: string, path: string, options: MediaOptions): Promise<string | undefined> => {
  if (!/^https?:\/\//i.test(url)) throw new SendFailure('INVALID_CONTENT', 'media.url must start with http:// or https://')
  const response = await fetch(url, { ...options.fetchOptions, signal: AbortSignal.timeout(DOWNLOAD_TIMEOUT_MS) })
  if (!response.ok || response.body === null) {
    await response.body?.cancel()
    throw unavailable(`the media's server answered ${response.status}`, response.status >= 500 || response.status === 429)
  }
  if (Number(response.headers.get('content-length') ?? 0) > options.maxBytes) {
    await response.body.cancel()
    throw tooLarge(options.maxBytes)
  }
  const file = createWriteStream(path, { mode: 0o600 })
  await pipeline(Readable.fromWeb(response.body as Parameters<typeof Readable.fromWeb>[0]), limited(options.maxBytes), file)
  return response.headers.get('content-type')?.split(';')[0]?.trim()
}

const fetchStored = async (mediaId: string, path: string, options: MediaOptions): Promise<void> => {
  const response = await options.api.open(`/media/${encodeURIComponent(mediaId)}`, DOWNLOAD_TIMEOUT_MS)
  const status = response.statusCode ?? 0
  if (status !== 200) {
    response.resume()
    throw unavailable(`the control plane answered ${status} for this mediaId`, status >= 500)
  }
  await pipeline(response, limited(options.maxBytes), createWriteStream(path, { mode: 0o600 }))
}

const decode = async (base64: string, path: string, maxBytes: number): Promise<void> => {
  const plain = base64.replace(/^data:[^,]*,/, '')
  if (!/^[A-Za-z0-9+/_=\s-]+$/.test(plain)) throw new SendFailure('INVALID_CONTENT', 'media.base64 is not base64')
  const bytes = Buffer.from(plain, 'base64')
  if (bytes.length > maxBytes) throw tooLarge(maxBytes)
  await writeFile(path, bytes, { mode: 0o600 })
}

/** The caller removes the file with `dropMedia` when it is done. */
export const fetchMedia = async (source: MediaSource, name: string, options: MediaOptions): Promise<MediaFile> => {
  const path = join(options.folder, `${name.replace(/[^\w-]/g, '_')}.media`)
  let served: string | undefined
  try {
    if (typeof source?.base64 === 'string') await decode(source.base64, path, options.maxBytes)
    else if (typeof source?.mediaId === 'string') await fetchStored(source.mediaId, path, options)
    else if (typeof source?.url === 'string') served = await download(source.url, path, options)
    else throw new SendFailure('INVALID_CONTENT', 'media needs a url, base64 or mediaId')
  } catch (error) {
    await rm(path, { force: true })
    if (error instanceof SendFailure) throw error
    const proxyError = findProxyError(error)
    throw unavailable(`the media could not be fetched: ${proxyError?.message ?? errorText(error)}`, true)
  }
  const mimetype = source.mimetype ?? (served === 'application/octet-stream' ? undefined : served)
  return { path, ...(mimetype ? { mimetype } : {}), ...(source.fileName ? { fileName: source.fileName } : {}) }
}

export const dropMedia = (file: MediaFile): Promise<void> => rm(file.path, { force: true })
