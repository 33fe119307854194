/** Every way out of the process: WebSocket agent, upload agent and fetch dispatcher, all through the SOCKS5 proxy. */
import type { ClientRequest } from 'node:http'
import type net from 'node:net'
import tls from 'node:tls'
import { SocksProxyAgent } from 'socks-proxy-agent'
import type { Dispatcher } from 'undici'
import { guardEgress, type Endpoint } from './egressGuard.ts'
import { openTunnel } from './tunnel.ts'
import type { ProxySettings } from './settings.ts'

type ConnectOptions = Parameters<SocksProxyAgent['connect']>[1]

/**
 * The stock agent keeps its time-out on the socket afterwards and so cuts a quiet WebSocket after ten seconds;
 * this one bounds the SOCKS phase only. It also remembers its sockets, so that a stuck attempt can be torn down.
 */
class TunnelAgent extends SocksProxyAgent {
  readonly #proxy: ProxySettings
  readonly #timeoutMs: number
  readonly #sockets = new Set<net.Socket>()
  #torn = false

  constructor(proxy: ProxySettings, timeoutMs: number) {
    super('socks5h://unused:1')
    this.#proxy = proxy
    this.#timeoutMs = timeoutMs
  }

  override async connect(_req: ClientRequest, options: ConnectOptions): Promise<net.Socket> {
    const { host, port } = options
    if (!host) throw new Error('no host given')
    const raw = await openTunnel(this.#proxy, { host, port: Number(port) }, this.#timeoutMs)
    if (this.#torn) {
      raw.destroy()
      throw new Error('the attempt was given up')
    }
    this.#sockets.add(raw)
    raw.once('close', () => this.#sockets.delete(raw))
    return options.secureEndpoint ? wrapTls(raw, host, options) : raw
  }

  /** Ends everything that goes through this agent, also a tunnel still being dug. */
  tearDown(): void {
    this.#torn = true
    for (const socket of this.#sockets) socket.destroy()
    this.#sockets.clear()
  }
}

const wrapTls = (socket: net.Socket, host: string, options: ConnectOptions): tls.TLSSocket => {
  const { ALPNProtocols } = options as tls.ConnectionOptions
  return tls.connect({ socket, servername: host, ...(ALPNProtocols ? { ALPNProtocols } : {}) })
}

const createDispatcher = async (proxy: ProxySettings, timeoutMs: number): Promise<Dispatcher> => {
  const { Agent } = await import('undici')
  return new Agent({
    // Media arrives in one go; idle tunnels are closed soon, they cost the proxy a connection each.
    keepAliveTimeout: 5_000,
    headersTimeout: 30_000,
    bodyTimeout: 30_000,
    connect: (options, callback) => {
      const secure = options.protocol === 'https:'
      const port = Number(options.port) || (secure ? 443 : 80)
      openTunnel(proxy, { host: options.hostname, port }, timeoutMs)
        .then(raw => {
          if (!secure) return callback(null, raw)
          const socket = tls.connect({ socket: raw, servername: options.servername ?? options.hostname })
          socket.once('secureConnect', () => callback(null, socket))
          socket.once('error', error => callback(error, null))
        })
        .catch((error: Error) => callback(error, null))
    },
  })
}

/** Where fetch, undici's as well as Node's own, looks for its dispatcher. */
const GLOBAL_DISPATCHER = Symbol.for('undici.globalDispatcher.1')

/** Most workers never fetch anything; undici and its WASM parser are loaded by those that do. */
const lazyDispatcher = (create: () => Promise<Dispatcher>): Pick<Dispatcher, 'dispatch'> => {
  let dispatcher: Promise<Dispatcher> | undefined
  return {
    dispatch: (options, handler) => {
      dispatcher ??= create()
      dispatcher.then(
        ready => ready.dispatch(options, handler),
        (error: Error) => handler.onError?.(error),
      )
      return true
    },
  }
}

export interface Egress {
  /** A fresh agent per connection attempt: tearing one attempt down touches no other. */
  newAgent(): TunnelAgent
  readonly uploads: TunnelAgent
  /** For fetch and for Baileys' own `options`. */
  readonly fetchOptions: RequestInit
}

export type { TunnelAgent }

export const createEgress = (proxy: ProxySettings, timeoutMs: number, controlPlane: Endpoint): Egress => {
  guardEgress([{ host: proxy.host, port: proxy.port }, controlPlane])
  const dispatcher = lazyDispatcher(() => createDispatcher(proxy, timeoutMs))
  // Baileys calls fetch without a dispatcher in places; the global one catches those.
  Reflect.set(globalThis, GLOBAL_DISPATCHER, dispatcher)
  return {
    newAgent: () => new TunnelAgent(proxy, timeoutMs),
    uploads: new TunnelAgent(proxy, timeoutMs),
    // The same class in two packages of types: undici's own and the copy that @types/node carries.
    fetchOptions: { dispatcher: dispatcher as unknown as NonNullable<RequestInit['dispatcher']> },
  }
}
