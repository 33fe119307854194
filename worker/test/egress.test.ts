import assert from 'node:assert/strict'
import dgram from 'node:dgram'
import dns from 'node:dns'
import http from 'node:http'
import net, { type AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import { createEgress } from '../src/egress.ts'
import { EgressRefused, guardEgress } from '../src/egressGuard.ts'
import { ProxyError, type ProxyErrorKind } from '../src/proxyErrors.ts'
import { openTunnel, probeProxy } from '../src/tunnel.ts'

const listen = (server: net.Server): Promise<number> =>
  new Promise(resolve => server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port)))

const servers: net.Server[] = []
/** A proxy that answers each step as told; `asked` collects the host names of requests. */
const fakeProxy = async (answers: number[][], asked: string[] = []): Promise<number> => {
  const server = net.createServer(socket => {
    let step = 0
    socket.on('error', () => undefined)
    socket.on('data', data => {
      if (data[0] === 5 && data[3] === 3) asked.push(data.subarray(5, 5 + (data[4] ?? 0)).toString())
      const answer = answers[step++]
      if (answer === undefined || answer.length === 0) socket.destroy()
      else socket.write(Buffer.from(answer))
    })
  })
  servers.push(server)
  return listen(server)
}

const hanging = async (): Promise<number> => {
  const server = net.createServer(socket => socket.on('error', () => undefined))
  servers.push(server)
  return listen(server)
}

const proxyAt = (port: number) => ({ host: '127.0.0.1', port, user: 'u', password: 'p' })
const OK = [5, 0, 0, 1, 0, 0, 0, 0, 0, 0]
const reply = (code: number): number[] => [5, code, 0, 1, 0, 0, 0, 0, 0, 0]

after(() => servers.forEach(server => server.close()))

test('each fault of a proxy has its kind, in the tunnel and in the probe', async () => {
  const closed = await hanging()
  await new Promise(resolve => servers.pop()?.close(resolve))
  const cases: Array<[number, ProxyErrorKind, ProxyErrorKind | undefined]> = [
    [closed, 'refused', 'refused'],
    [await hanging(), 'timeout', 'timeout'],
    [await fakeProxy([[5, 2], [1, 1]]), 'auth', 'auth'],
    [await fakeProxy([[5, 255]]), 'auth', 'auth'],
    [await fakeProxy([[72, 84]]), 'protocol', 'protocol'],
    [await fakeProxy([[]]), 'protocol', 'protocol'],
    [await fakeProxy([[5, 0], reply(5)]), 'target', undefined],
    [await fakeProxy([[5, 0], reply(2)]), 'refused', undefined],
  ]
  for (const [port, tunnelKind, probeKind] of cases) {
    await assert.rejects(
      openTunnel(proxyAt(port), { host: 'web.whatsapp.com', port: 443 }, 300),
      (error: unknown) => error instanceof ProxyError && (error.kind === tunnelKind || assert.fail(`${error.kind} ${error.message}`)),
      `tunnel ${tunnelKind}`,
    )
    assert.equal((await probeProxy(proxyAt(port), 300))?.kind, probeKind)
  }
  assert.equal((await probeProxy({ host: 'no-such-proxy.invalid', port: 1 }, 3_000))?.kind, 'unreachable')
})

let restore: () => void = () => undefined
after(() => restore())

test('with the guard nothing but the proxy and the control plane can be reached', async () => {
  const allowed = await hanging()
  const other = await hanging()
  restore = guardEgress([{ host: '127.0.0.1', port: allowed }])
  assert.throws(() => net.connect(other, '127.0.0.1'), EgressRefused)
  assert.throws(() => net.connect({ host: '8.8.8.8', port: 443 }), EgressRefused)
  assert.throws(() => net.connect('/tmp/some.sock'), EgressRefused)
  assert.throws(() => http.get(`http://127.0.0.1:${other}/`), EgressRefused)
  assert.throws(() => dns.lookup('web.whatsapp.com', () => undefined), EgressRefused)
  await assert.rejects(dns.promises.lookup('web.whatsapp.com'), EgressRefused)
  await assert.rejects(fetch(`http://127.0.0.1:${other}/`))
  const datagram = dgram.createSocket('udp4')
  assert.throws(() => datagram.send('x', 53, '8.8.8.8'), EgressRefused)
  datagram.close()
  const socket = net.connect(allowed, '127.0.0.1')
  await new Promise(resolve => socket.once('connect', resolve))
  socket.destroy()
  restore()
})

test('fetch goes through the proxy, which gets the name and not an address', async () => {
  const asked: string[] = []
  const port = await fakeProxy([[5, 2], [1, 0], OK, [...Buffer.from('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')]], asked)
  const egress = createEgress(proxyAt(port), 1_000, { host: '127.0.0.1', port: 9 })
  const plain = await fetch('http://media.example/x')
  assert.equal(await plain.text(), 'ok')
  const explicit = await fetch('http://other.example/x', egress.fetchOptions)
  assert.equal(await explicit.text(), 'ok')
  assert.deepEqual(asked, ['media.example', 'other.example'])
})
