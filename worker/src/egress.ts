/** Every way out of the process: WebSocket agent, upload agent and fetch dispatcher, all through the SOCKS5 proxy. */
import type { ClientRequest } from 'node:http'
import type net from 'node:net'
import tls from 'node:tls'
import { SocksProxyAgent } from 'socks-proxy-agent'
import { Agent, setGlobalDispatcher, type Dispatcher } from 'undici'
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

const createDispatcher = (proxy: ProxySettings, timeoutMs: number): Dispatcher =>
  new Agent({
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
  const dispatcher = createDispatcher(proxy, timeoutMs)
  // Baileys calls fetch without a dispatcher in places; the global one catches those.
  setGlobalDispatcher(dispatcher)
  return {
    newAgent: () => new TunnelAgent(proxy, timeoutMs),
    uploads: new TunnelAgent(proxy, timeoutMs),
    // The same class in two packages of types: undici's own and the copy that @types/node carries.
    fetchOptions: { dispatcher: dispatcher as unknown as NonNullable<RequestInit['dispatcher']> },
  }
}
