/** One TCP connection through the SOCKS5 proxy, names resolved there; every failure is a ProxyError. */
import net from 'node:net'
import { SocksClient } from 'socks'
import type { ProxySettings } from './settings.ts'
import { ProxyError, toProxyError } from './proxyErrors.ts'

export interface Target {
  readonly host: string
  readonly port: number
}

export const openTunnel = async (proxy: ProxySettings, target: Target, timeoutMs: number): Promise<net.Socket> => {
  try {
    const { socket } = await SocksClient.createConnection({
      proxy: {
        host: proxy.host,
        port: proxy.port,
        type: 5,
        ...(proxy.user === undefined ? {} : { userId: proxy.user, password: proxy.password ?? '' }),
      },
      destination: { host: target.host, port: target.port },
      command: 'connect',
      timeout: timeoutMs,
    })
    return socket
  } catch (error) {
    throw toProxyError(error)
  }
}

const greeting = (proxy: ProxySettings): Buffer =>
  proxy.user === undefined ? Buffer.from([5, 1, 0]) : Buffer.from([5, 2, 0, 2])

const credentials = (proxy: ProxySettings): Buffer => {
  const user = Buffer.from(proxy.user ?? '')
  const password = Buffer.from(proxy.password ?? '')
  return Buffer.concat([Buffer.from([1, user.length]), user, Buffer.from([password.length]), password])
}

/**
 * Asks the proxy for a handshake and no connection: tells a dead proxy from a dropped WhatsApp connection,
 * which look the same to Baileys. Resolves to undefined when the proxy is well.
 */
export const probeProxy = (proxy: ProxySettings, timeoutMs: number): Promise<ProxyError | undefined> =>
  new Promise(resolve => {
    const socket = net.connect({ host: proxy.host, port: proxy.port })
    let step: 'method' | 'password' = 'method'
    const finish = (error?: ProxyError): void => {
      clearTimeout(timer)
      socket.destroy()
      resolve(error)
    }
    const timer = setTimeout(() => finish(new ProxyError('timeout', 'Proxy connection timed out')), timeoutMs)
    socket.on('connect', () => socket.write(greeting(proxy)))
    socket.on('error', error => finish(toProxyError(error)))
    socket.on('close', () => finish(new ProxyError('protocol', 'Socket closed')))
    socket.on('data', data => {
      if (step === 'password') {
        finish(data[1] === 0 ? undefined : new ProxyError('auth', 'Socks5 Authentication failed'))
      } else if (data[0] !== 5) {
        finish(new ProxyError('protocol', 'the proxy does not speak SOCKS5'))
      } else if (data[1] === 0) {
        finish()
      } else if (data[1] === 2 && proxy.user !== undefined) {
        step = 'password'
        socket.write(credentials(proxy))
      } else {
        finish(new ProxyError('auth', 'the proxy accepts none of our authentication methods'))
      }
    })
  })
