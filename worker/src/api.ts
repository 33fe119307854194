/** Signed HTTP to the control plane: direct, on node:http, so that the proxy dispatcher of fetch does not apply. */
import { createHmac } from 'node:crypto'
import http from 'node:http'
import https from 'node:https'
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

  close(): void {
    this.#agent.destroy()
  }

  async #post(url: URL, body: string, options: RequestOptions): Promise<Answer> {
    const response = await this.#send('POST', url, body, options)
    const chunks: Buffer[] = []
    let size = 0
    for await (const chunk of response as AsyncIterable<Buffer>) {
      size += chunk.length
      if (size > MAX_ANSWER_BYTES) throw new Error(`the answer has more than ${MAX_ANSWER_BYTES} bytes`)
      chunks.push(chunk)
    }
    return { status: response.statusCode ?? 0, body: Buffer.concat(chunks) }
  }

  #send(method: string, url: URL, body: string, { timeoutMs, signal }: RequestOptions): Promise<http.IncomingMessage> {
    const timestamp = String(Date.now())
    const headers = {
      'x-webhook-timestamp': timestamp,
      'x-webhook-signature': sign(this.#secret, timestamp, body),
      ...(method === 'POST' ? { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) } : {}),
    }
    // Covers the whole exchange, the body of the answer included.
    const limit = AbortSignal.any([AbortSignal.timeout(timeoutMs), ...(signal ? [signal] : [])])
    return new Promise((resolve, reject) => {
      const request = this.#transport.request(url, { method, headers, agent: this.#agent, signal: limit }, resolve)
      request.on('error', reject)
      request.end(body)
    })
  }
}
