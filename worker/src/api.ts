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
  readonly maxBytes?: number
}

/** Claims and acks are small; the limit only guards against a wrong address that streams without end. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024

export class AnswerTooLarge extends Error {}

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
    return this.#request('POST', this.#webhook, body, { timeoutMs })
  }

  post(path: string, body: unknown, options: RequestOptions): Promise<Answer> {
    return this.#request('POST', new URL(this.#prefix + path, this.#base), JSON.stringify(body), options)
  }

  get(path: string, options: RequestOptions): Promise<Answer> {
    return this.#request('GET', new URL(this.#prefix + path, this.#base), '', options)
  }

  close(): void {
    this.#agent.destroy()
  }

  #request(method: string, url: URL, body: string, options: RequestOptions): Promise<Answer> {
    const timestamp = String(Date.now())
    const headers = {
      'x-webhook-timestamp': timestamp,
      'x-webhook-signature': sign(this.#secret, timestamp, body),
      ...(method === 'POST' ? { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) } : {}),
    }
    const maxBytes = options.maxBytes ?? MAX_ANSWER_BYTES
    return new Promise((resolve, reject) => {
      const signal = AbortSignal.any([AbortSignal.timeout(options.timeoutMs), ...(options.signal ? [options.signal] : [])])
      const request = this.#transport.request(url, { method, headers, agent: this.#agent, signal }, response => {
        const chunks: Buffer[] = []
        let size = 0
        response.on('data', (chunk: Buffer) => {
          size += chunk.length
          if (size > maxBytes) response.destroy(new AnswerTooLarge(`more than ${maxBytes} bytes`))
          else chunks.push(chunk)
        })
        response.on('error', reject)
        response.on('end', () => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks) }))
      })
      request.on('error', reject)
      request.end(body)
    })
  }
}
