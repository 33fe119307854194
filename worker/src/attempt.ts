/** One Baileys socket, from its first packet to its end; a new attempt is a new object. */
import {
  makeWASocket,
  type BaileysEventMap,
  type BinaryNode,
  type proto,
  type UserFacingSocketConfig,
  type WABrowserDescription,
  type WAMessageKey,
  type WASocket,
} from 'baileys'
import type { AuthState } from './authState.ts'
import { baileysLogger } from './baileysLogger.ts'
import { StuckConnecting, UpgradeFailed } from './disconnectPolicy.ts'
import type { Egress } from './egress.ts'
import type { Log } from './log.ts'
import { ignoredJid } from './receipts.ts'
import type { Settings } from './settings.ts'
import { durableSignalRepository } from './signalRepository.ts'
import { storeFirst } from './storeFirst.ts'

export interface AttemptEvents {
  onQr(qr: string): void
  onPaired(): void
  onOpen(): void
  onCreds(): void
  onFrame(): void
  onMessageAck(node: BinaryNode): void
  onMessages(event: BaileysEventMap['messages.upsert']): void
  onUpdates(event: BaileysEventMap['messages.update']): void
  /** Resolves when what the receipt says is on disk; undefined if there is nothing to store. */
  onReceipt(node: BinaryNode): Promise<void> | undefined
}

export interface AttemptOptions {
  readonly settings: Settings
  readonly auth: AuthState
  readonly egress: Egress
  readonly browser: WABrowserDescription
  readonly getMessage: (key: WAMessageKey) => Promise<proto.IMessage | undefined>
  readonly retryCounters: NonNullable<UserFacingSocketConfig['msgRetryCounterCache']>
  readonly events: AttemptEvents
  readonly log: Log
}

/** One unanswered query blocks every send of the socket, so the library's 60 s are cut. */
const QUERY_TIMEOUT_MS = 20_000

export class Attempt {
  readonly sock: WASocket
  /** Resolves to the cause when the connection has ended, for whatever reason. */
  readonly closed: Promise<unknown>
  readonly #agent: ReturnType<Egress['newAgent']>
  #resolveClosed!: (cause: unknown) => void
  #watchdog: NodeJS.Timeout | undefined
  #over = false
  #qrSeen = false

  constructor(options: AttemptOptions) {
    this.closed = new Promise(resolve => {
      this.#resolveClosed = resolve
    })
    this.#agent = options.egress.newAgent()
    this.sock = makeWASocket(this.#config(options))
    this.#watch(options.settings.connectTimeoutMs)
    this.#listen(options)
  }

  get qrSeen(): boolean {
    return this.#qrSeen
  }

  /** Ends this attempt now. Baileys alone would wait for a polite close, half a minute on a dead connection. */
  giveUp(cause: Error | undefined): void {
    if (this.#over) return
    this.#finish(cause)
    void this.sock.end(cause)
    this.#agent.tearDown()
  }

  /** A polite end: what was written goes out, then the WebSocket is closed. */
  async leave(): Promise<void> {
    this.#finish(undefined)
    await this.sock.end(undefined)
    this.#agent.tearDown()
  }

  #finish(cause: unknown): void {
    this.#over = true
    clearTimeout(this.#watchdog)
    this.#resolveClosed(cause)
  }

  #watch(ms: number): void {
    clearTimeout(this.#watchdog)
    this.#watchdog = setTimeout(() => this.giveUp(new StuckConnecting('no answer while connecting')), ms)
  }

  #config({ settings, auth, egress, browser, getMessage, retryCounters, log }: AttemptOptions): UserFacingSocketConfig {
    return {
      auth: { creds: auth.creds, keys: auth.keys },
      agent: this.#agent,
      fetchAgent: egress.uploads,
      options: egress.fetchOptions,
      browser,
      logger: baileysLogger(log),
      getMessage,
      msgRetryCounterCache: retryCounters,
      makeSignalRepository: durableSignalRepository(auth.opened),
      markOnlineOnConnect: false,
      syncFullHistory: false,
      generateHighQualityLinkPreview: false,
      emitOwnEvents: false,
      shouldIgnoreJid: ignoredJid,
      defaultQueryTimeoutMs: QUERY_TIMEOUT_MS,
      ...(settings.waVersion ? { version: [...settings.waVersion] } : {}),
      ...(settings.waWebSocketUrl ? { waWebSocketUrl: settings.waWebSocketUrl } : {}),
    }
  }

  #listen({ events, settings, auth, log }: AttemptOptions): void {
    const { ev, ws } = this.sock
    ev.on('creds.update', () => events.onCreds())
    ev.on('connection.update', update => {
      if (this.#over) return
      if (update.qr) {
        this.#qrSeen = true
        // From now on a person decides how long it takes.
        clearTimeout(this.#watchdog)
        events.onQr(update.qr)
      }
      if (update.isNewLogin) {
        this.#watch(settings.connectTimeoutMs)
        events.onPaired()
      }
      if (update.connection === 'open') {
        clearTimeout(this.#watchdog)
        events.onOpen()
      }
      if (update.connection === 'close') {
        this.#finish(update.lastDisconnect?.error)
        this.#agent.tearDown()
      }
    })
    ws.on('frame', () => events.onFrame())
    ws.on('CB:ack,class:message', (node: BinaryNode) => events.onMessageAck(node))
    // Without this, an HTTP error instead of a WebSocket raises no event at all.
    ws.on('unexpected-response', (_request: unknown, response: { statusCode?: number }) => {
      this.giveUp(new UpgradeFailed(response.statusCode ?? 0))
    })
    this.#keepOrder(auth)
    storeFirst(ws, 'CB:receipt', {
      store: node => events.onReceipt(node),
      onGivenUp: () => log.warn('receipt_not_stored'),
    })
    this.#tap(events)
  }

  /**
   * Baileys stores the address of a stranger before it queues the message, and a second message can pass it meanwhile.
   * One after the other costs nothing: the rest of the handling is one at a time anyway.
   */
  #keepOrder({ opened }: AuthState): void {
    const { ws } = this.sock
    const handlers = ws.listeners('CB:message') as Array<(node: BinaryNode) => unknown>
    ws.removeAllListeners('CB:message')
    let tail = Promise.resolve()
    ws.on('CB:message', (node: BinaryNode) => {
      opened.announce(node)
      tail = tail.then(async () => {
        for (const handle of handlers) await handle(node)
      })
      tail = tail.catch(() => undefined)
    })
  }

  /**
   * Baileys holds messages back in a buffer (up to 20 s after a first login) that it throws away when the connection
   * closes, although they are acknowledged to WhatsApp already. So they are taken before the buffer.
   */
  #tap(events: AttemptEvents): void {
    const { ev } = this.sock
    const emit = ev.emit.bind(ev)
    ev.emit = (event, data) => {
      if (event === 'messages.upsert') events.onMessages(data as BaileysEventMap['messages.upsert'])
      else if (event === 'messages.update') events.onUpdates(data as BaileysEventMap['messages.update'])
      return emit(event, data)
    }
  }
}
