/** Defence in depth: refuses every connection and look-up of this process except to the proxy and the control plane. */
import dgram from 'node:dgram'
import dns from 'node:dns'
import { syncBuiltinESMExports } from 'node:module'
import net from 'node:net'

export interface Endpoint {
  readonly host: string
  readonly port: number
}

export class EgressRefused extends Error {
  readonly code = 'EEGRESS'

  constructor(what: string) {
    super(`direct connection refused: ${what} is neither the proxy nor the control plane`)
    this.name = 'EgressRefused'
  }
}

const plain = (host: string): string => host.toLowerCase().replace(/^\[(.*)\]$/, '$1')

/** What a call of `Socket.connect` aims at, whichever of its many argument forms was used. */
const destination = (args: readonly unknown[]): { host: string; port: number } | 'ipc' => {
  const first: unknown = Array.isArray(args[0]) ? args[0][0] : args[0]
  if (typeof first === 'object' && first !== null) {
    const options = first as { host?: unknown; port?: unknown; path?: unknown }
    if (typeof options.path === 'string' && options.port === undefined) return 'ipc'
    return { host: typeof options.host === 'string' ? options.host : 'localhost', port: Number(options.port) }
  }
  if (typeof first === 'string' && Number.isNaN(Number(first))) return 'ipc'
  return { host: typeof args[1] === 'string' ? args[1] : 'localhost', port: Number(first) }
}

/** Installs the guard for the life of the process. Returns a function that takes it away again, for tests. */
export const guardEgress = (allowed: readonly Endpoint[]): (() => void) => {
  const endpoints = new Set(allowed.map(end => `${plain(end.host)}|${end.port}`))
  const names = new Set(allowed.map(end => plain(end.host)))

  const connect = net.Socket.prototype.connect
  const lookup = dns.lookup
  const promisedLookup = dns.promises.lookup
  const send = dgram.Socket.prototype.send
  const dgramConnect = dgram.Socket.prototype.connect

  // Each wrapper passes its arguments on untouched, so the overloads of the original stay true.
  net.Socket.prototype.connect = function guarded(this: net.Socket, ...args: unknown[]): net.Socket {
    const to = destination(args)
    if (to === 'ipc' || !endpoints.has(`${plain(to.host)}|${to.port}`)) {
      throw new EgressRefused(to === 'ipc' ? 'a local socket' : `${to.host}:${to.port}`)
    }
    return Reflect.apply(connect, this, args)
  } as typeof connect
  const guardName = (host: unknown): void => {
    if (typeof host === 'string' && !net.isIP(plain(host)) && !names.has(plain(host))) {
      throw new EgressRefused(`the name ${host}`)
    }
  }
  dns.lookup = Object.assign(function guarded(...args: unknown[]): void {
    guardName(args[0])
    Reflect.apply(lookup, dns, args)
  }, lookup) as typeof lookup
  dns.promises.lookup = (async (...args: unknown[]) => {
    guardName(args[0])
    return Reflect.apply(promisedLookup, dns.promises, args) as unknown
  }) as typeof promisedLookup
  const refuseDatagram = (): never => {
    throw new EgressRefused('a datagram')
  }
  dgram.Socket.prototype.send = refuseDatagram
  dgram.Socket.prototype.connect = refuseDatagram
  // Named imports of these modules elsewhere must see the wrappers too.
  syncBuiltinESMExports()

  return () => {
    net.Socket.prototype.connect = connect
    dns.lookup = lookup
    dns.promises.lookup = promisedLookup
    dgram.Socket.prototype.send = send
    dgram.Socket.prototype.connect = dgramConnect
    syncBuiltinESMExports()
  }
}
