/** Signed HTTP to the control plane: direct, on node:http, so that the proxy dispatcher of fetch does not apply. */
import { createHmac } from 'node:crypto'
import { createReadStream } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import { pipeline } from 'node:stream/promises'
import type { Settings } from './settings.ts'

export interface Answer {
  readonly status: number
  readonly body: Buffer
}

export interface RequestOptions {
  readonly timeoutMs: number
  readonly signal?: AbortSignal
}

/** Claims and acks are small; the limit only guards against a wrong address that streams without end. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024

export const sign = (secret: string, timestamp: string, body: string): string =>
  createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')

export class Api {
  readonly #base: URL
  readonly #webhook: URL
  readonly #secret: string
  readonly #prefix: string
  readonly #transport: typeof http | typeof https
  readonly #agent: http.Agent

  constructor(settings: Settings) {
    this.#webhook = settings.webhookUrl
    this.#base = new URL('/', settings.webhookUrl)
    this.#secret = settings.webhookSecret
    this.#prefix = `/api/worker/sessions/${settings.sessionId}`
    const secure = this.#webhook.protocol === 'https:'
    this.#transport = secure ? https : http
    // A waiting claim, an event and a PING may be under way together.
    this.#agent = new this.#transport.Agent({ keepAlive: true, maxSockets: 6, keepAliveMsecs: 20_000 })
  }

  postEvent(body: string, timeoutMs: number): Promise<Answer> {
    return this.#post(this.#webhook, body, { timeoutMs })
  }

  post(path: string, body: unknown, options: RequestOptions): Promise<Answer> {
    return this.#post(new URL(this.#prefix + path, this.#base), JSON.stringify(body), options)
  }

  /** A GET whose answer is read by the caller, as a stream. */
  open(path: string, timeoutMs: number): Promise<http.IncomingMessage> {
    return this.#send('GET', new URL(this.#prefix + path, this.#base), '', { timeoutMs })
  }

  /** A file as the body. It is signed by its hash, so that the other side knows who speaks before it reads it. */
  async upload(path: string, file: string, about: { sizeBytes: number; sha256: string }, options: RequestOptions): Promise<Answer> {
    const url = new URL(this.#prefix + path, this.#base)
    const headers = {
      ...this.#signed(`PUT ${url.pathname}\n${about.sizeBytes}\n${about.sha256}`),
      'x-content-sha256': about.sha256,
      'content-type': 'application/octet-stream',
      'content-length': about.sizeBytes,
    }
    const { request, response } = this.#request('PUT', url, headers, options)
    // An answer may come before the last byte is sent (a refusal), and it alone counts.
    pipeline(createReadStream(file), request).catch((error: unknown) => request.destroy(error as Error))
    return this.#read(await response)
  }

  close(): void {
    this.#agent.destroy()
  }

  async #post(url: URL, body: string, options: RequestOptions): Promise<Answer> {
    return this.#read(await this.#send('POST', url, body, options))
  }

  async #read(response: http.IncomingMessage): Promise<Answer> {
    const chunks: Buffer[] = []
    let size = 0
    for await (const chunk of response as AsyncIterable<Buffer>) {
      size += chunk.length
      if (size > MAX_ANSWER_BYTES) throw new Error(`the answer has more than ${MAX_ANSWER_BYTES} bytes`)
      chunks.push(chunk)
    }
    return { status: response.statusCode ?? 0, body: Buffer.concat(chunks) }
  }

  #send(method: string, url: URL, body: string, options: RequestOptions): Promise<http.IncomingMessage> {
    const headers = {
      ...this.#signed(body),
      ...(method === 'POST' ? { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) } : {}),
    }
    const { request, response } = this.#request(method, url, headers, options)
    request.end(body)
    return response
  }

  #signed(what: string): { 'x-webhook-timestamp': string; 'x-webhook-signature': string } {
    const timestamp = String(Date.now())
    return { 'x-webhook-timestamp': timestamp, 'x-webhook-signature': sign(this.#secret, timestamp, what) }
  }

  #request(
    method: string,
    url: URL,
    headers: http.OutgoingHttpHeaders,
    { timeoutMs, signal }: RequestOptions,
  ): { request: http.ClientRequest; response: Promise<http.IncomingMessage> } {
    // Covers the whole exchange, the body of the answer included.
    const limit = AbortSignal.any([AbortSignal.timeout(timeoutMs), ...(signal ? [signal] : [])])
    const request = this.#transport.request(url, { method, headers, agent: this.#agent, signal: limit })
    const response = new Promise<http.IncomingMessage>((resolve, reject) => {
      request.on('response', resolve)
      request.on('error', reject)
    })
    return { request, response }
  }
}
