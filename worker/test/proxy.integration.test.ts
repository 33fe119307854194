import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Stage } from './harness/stage.ts'

const stage = new Stage('proxy')
const env = { PROXY_TIMEOUT_MS: '1000' }

test('a proxy that dies while connected is a PROXY_ERROR; when it is back, so are we, with the same login', async () => {
  await stage.startPaired('dies', '972500000201', { env })
  const port = stage.simulator.proxyPort(0)
  await stage.simulator.faults({ proxyDown: port })
  const { data } = await stage.plane.event('PROXY_ERROR', undefined, 5_000)
  assert.equal(data['kind'], 'refused')
  assert.equal(data['port'], port)
  const disconnected = await stage.plane.event('DISCONNECTED', ({ reason }) => reason === 'proxy_error')
  assert.equal(disconnected.data['isProxyError'], true)
  assert.equal(disconnected.data['isLoggedOut'], false)
  await stage.simulator.faults({ proxyUp: port })
  await stage.connectedAgain(2)
  // One of each, however many attempts failed in between.
  assert.equal(stage.plane.ofType('PROXY_ERROR').length, 1)
})

for (const [mode, kind] of [['auth', 'auth'], ['hang', 'timeout'], ['refuse', undefined], ['drop', undefined], ['target-refused', 'target']] as const) {
  test(`a proxy with the fault "${mode}" is told apart, and the login survives it`, async () => {
    const session = `fault-${mode}`
    const worker = await stage.startPaired(session, `9725000002${10 + mode.length}`, { env })
    await worker.kill('SIGTERM')
    const journal = join(stage.folder, session, 'auth', 'journal')
    const before = readFileSync(journal).length
    await stage.simulator.faults({ proxyFault: { port: stage.simulator.proxyPort(0), mode } })
    await stage.start(session, { env, keepPlane: true })
    const { data } = await stage.plane.event('PROXY_ERROR', undefined, 5_000)
    if (kind) assert.equal(data['kind'], kind)
    else assert.ok(['refused', 'protocol'].includes(String(data['kind'])), String(data['kind']))
    assert.ok(readFileSync(journal).length > before / 2)
    await stage.simulator.faults({ clear: true })
    await stage.connectedAgain(2)
    assert.equal(stage.plane.ofType('QR_CODE').length, 1)
  })
}

test('a wrong password and an unknown proxy host are told apart and never by-passed', async () => {
  const right = new URL((stage.simulator.ready.proxies[0] ?? '').replace('socks5h', 'http'))
  await stage.start('wrongpass', { env, proxy: `socks5h://user1:wrong@${right.host}` })
  assert.equal((await stage.plane.event('PROXY_ERROR', undefined, 5_000)).data['kind'], 'auth')
  await stage.plane.stop()
  const other = await stage.start('nohost', { env, proxy: 'socks5h://proxy.invalid:1080' })
  assert.equal((await stage.plane.event('PROXY_ERROR', undefined, 8_000)).data['kind'], 'unreachable')
  assert.equal(stage.plane.ofType('QR_CODE').length, 0)
  assert.doesNotMatch(other.stderr, /wrong@/)
})
