/** A small control plane for tests: takes events, hands out messages and commands, can be slow, down or rude. */
import { createHash, createHmac } from 'node:crypto'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Content } from '../../src/protocol.ts'
import { problemsOf } from './schemas.ts'
import { waitFor } from './wait.ts'

export interface WorkerEvent {
  sessionId: string
  type: string
  timestamp: number
  seq?: number
  stream?: string
  data: Record<string, unknown>
}

export interface Settled {
  messageId: string
  token: string
  waMessageId?: string
  repeated?: boolean
  sentAt?: number
  error?: { code: string; message: string }
  retryable?: boolean
  retryAfterMs?: number
}

interface QueuedMessage {
  messageId: string
  waMessageId: string
  to: string
  content: Content
  lease: { token: string; expiresAt: number }
  attempt: number
  typingMs: number
  checkExists: boolean
  redriven?: boolean
}

export const SECRET = 'a-secret-of-this-session'

export class ControlPlane {
  readonly events: WorkerEvent[] = []
  readonly pings: WorkerEvent[] = []
  readonly acks: Settled[] = []
  readonly nacks: Settled[] = []
  readonly problems: string[] = []
  readonly claims: Array<{ max: number; connection: string; emptyHanded?: boolean }> = []
  readonly media = new Map<string, Buffer>()
  /** Files of incoming messages, by mediaId. */
  readonly uploads = new Map<string, Buffer>()
  uploadStatus = 200
  /** Answer of the webhook; 200 unless a test wants otherwise. */
  eventStatus = 200
  #server: http.Server | undefined
  #port = 0
  #messages: QueuedMessage[] = []
  #commands: Array<{ commandId: string; name: string; args: Record<string, unknown> }> = []
  #waiting = new Set<() => void>()
  #number = 0

  get url(): string {
    return `http://127.0.0.1:${this.#port}/api/webhook`
  }

  async start(): Promise<void> {
    const server = http.createServer((request, response) => void this.#serve(request, response))
    await new Promise<void>(resolve => server.listen(this.#port, '127.0.0.1', resolve))
    this.#port = (server.address() as AddressInfo).port
    this.#server = server
  }

  async stop(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    this.#wake()
    server?.closeAllConnections()
    await new Promise<void>(resolve => (server ? server.close(() => resolve()) : resolve()))
  }

  enqueue(to: string, content: Content, options: Partial<QueuedMessage> = {}): QueuedMessage {
    const number = ++this.#number
    const message: QueuedMessage = {
      messageId: `msg_${number}`,
      waMessageId: `3EB0${String(number).padStart(16, '0')}`,
      to,
      content,
      lease: { token: `t${number}`, expiresAt: Date.now() + 60_000 },
      attempt: 1,
      typingMs: 0,
      checkExists: false,
      ...options,
    }
    this.#messages.push(message)
    this.#wake()
    return message
  }

  command(name: string, args: Record<string, unknown> = {}): string {
    const commandId = `cmd_${++this.#number}`
    this.#commands.push({ commandId, name, args })
    this.#wake()
    return commandId
  }

  ofType(type: string): WorkerEvent[] {
    return this.events.filter(event => event.type === type)
  }

  event(type: string, test: (data: Record<string, unknown>) => boolean = () => true, timeoutMs?: number): Promise<WorkerEvent> {
    return waitFor(`event ${type}`, () => this.events.find(event => event.type === type && test(event.data)), timeoutMs)
  }

  async result(commandId: string): Promise<Record<string, unknown>> {
    const event = await this.event('COMMAND_RESULT', data => data['commandId'] === commandId)
    this.#commands = this.#commands.filter(command => command.commandId !== commandId)
    return event.data
  }

  ack(messageId: string, timeoutMs?: number): Promise<Settled> {
    return waitFor(`ack of ${messageId}`, () => this.acks.find(ack => ack.messageId === messageId), timeoutMs)
  }

  nack(messageId: string, timeoutMs?: number): Promise<Settled> {
    return waitFor(`nack of ${messageId}`, () => this.nacks.find(nack => nack.messageId === messageId), timeoutMs)
  }

  #wake(): void {
    for (const wake of [...this.#waiting]) wake()
  }

  async #serve(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
    const bytes = Buffer.concat(chunks)
    const body = request.method === 'PUT' ? this.#uploadWords(request, bytes) : bytes.toString('utf8')
    const answer = (status: number, value: unknown): void => {
      response.writeHead(status, { 'content-type': 'application/json' })
      response.end(JSON.stringify(value))
    }
    const timestamp = String(request.headers['x-webhook-timestamp'])
    const signature = createHmac('sha256', SECRET).update(`${timestamp}.${body}`).digest('hex')
    if (request.headers['x-webhook-signature'] !== signature || Math.abs(Date.now() - Number(timestamp)) > 60_000) {
      this.problems.push(`bad signature on ${request.url ?? ''}`)
      return answer(401, { error: { code: 'BAD_SIGNATURE' } })
    }
    const path = request.url ?? ''
    if (path === '/api/webhook') return this.#takeEvent(JSON.parse(body) as WorkerEvent, answer)
    if (path.endsWith('/outbox/claim')) return this.#claim(body, response, answer)
    const upload = request.method === 'PUT' ? /\/inbound\/(in_.+)$/.exec(path)?.[1] : undefined
    if (upload !== undefined) {
      if (this.uploadStatus === 200) this.uploads.set(upload, bytes)
      return answer(this.uploadStatus, { ok: true })
    }
    const media = /\/media\/(.+)$/.exec(path)?.[1]
    if (media !== undefined) {
      const found = this.media.get(media)
      response.writeHead(found ? 200 : 404).end(found)
      return
    }
    const word = path.endsWith('/outbox/ack') ? 'ack' : 'nack'
    this.#check(word, body)
    this[word === 'ack' ? 'acks' : 'nacks'].push(JSON.parse(body) as Settled)
    answer(200, { ok: true })
  }

  /** What is signed of an upload: the address, the size and the hash of what really came. */
  #uploadWords(request: http.IncomingMessage, bytes: Buffer): string {
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    if (request.headers['x-content-sha256'] !== sha256) this.problems.push('the hash of an upload is wrong')
    return `PUT ${request.url ?? ''}\n${bytes.length}\n${sha256}`
  }

  #takeEvent(event: WorkerEvent, answer: (status: number, value: unknown) => void): void {
    this.#check('event', JSON.stringify(event))
    if (event.type === 'PING') this.pings.push(event)
    else if (this.eventStatus === 200) this.#store(event)
    answer(this.eventStatus, { accepted: this.eventStatus === 200, duplicate: false })
  }

  #store(event: WorkerEvent): void {
    const last = this.events.filter(other => other.stream === event.stream).at(-1)
    if (last && (event.seq ?? 0) <= (last.seq ?? 0)) return
    if (last && event.seq !== (last.seq ?? 0) + 1) this.problems.push(`number ${event.seq} after ${last.seq}`)
    this.events.push(event)
  }

  async #claim(body: string, response: http.ServerResponse, answer: (status: number, value: unknown) => void): Promise<void> {
    this.#check('claim-request', body)
    const request = JSON.parse(body) as { max: number; waitMs: number; connection: string; emptyHanded?: boolean }
    this.claims.push(request)
    const ready = (): boolean => this.#commands.length > 0 || (request.max > 0 && this.#messages.length > 0)
    if (!ready()) {
      await new Promise<void>(resolve => {
        const done = (): void => {
          clearTimeout(timer)
          this.#waiting.delete(done)
          resolve()
        }
        const timer = setTimeout(done, request.waitMs)
        this.#waiting.add(done)
        response.on('close', done)
      })
    }
    if (response.destroyed) return
    const messages = this.#messages.splice(0, request.max)
    const value = { messages, commands: this.#commands }
    this.#check('claim-response', JSON.stringify(value))
    // Commands come again and again until they are answered; a little pause keeps that from spinning.
    if (messages.length === 0 && this.#commands.length > 0) await new Promise(resolve => setTimeout(resolve, 30))
    answer(200, value)
  }

  #check(schema: string, body: string): void {
    for (const problem of problemsOf(schema, JSON.parse(body))) this.problems.push(`${schema}: ${problem}: ${body.slice(0, 400)}`)
  }
}
