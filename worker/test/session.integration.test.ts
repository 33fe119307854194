import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Stage } from './harness/stage.ts'
import { bundle } from './harness/workerProcess.ts'
import { waitFor } from './harness/wait.ts'

const stage = new Stage('session')
const { folder } = stage

const inspect = (sessionId: string): unknown =>
  JSON.parse(execFileSync(process.execPath, [bundle, 'inspect', join(folder, sessionId)], { encoding: 'utf8' }))

test('scan, connected; stop within ten seconds; connected again without a scan', async () => {
  const worker = await stage.startPaired('qr', '972500000101')
  const connected = (await stage.plane.event('CONNECTED')).data
  assert.equal(connected['phoneNumber'], '972500000101')
  assert.equal(connected['isNewLogin'], true)
  assert.deepEqual(stage.plane.events.map(event => event.type), ['QR_CODE', 'DISCONNECTED', 'CONNECTED'])
  assert.equal(stage.plane.events[1]?.data['reason'], 'restart_required')
  await waitFor('a PING while open', () => stage.plane.pings.find(ping => ping.data['connection'] === 'open'))
  const before = Date.now()
  assert.equal(await worker.kill('SIGTERM'), 0)
  assert.ok(Date.now() - before < 10_000)
  assert.deepEqual(Object.keys(inspect('qr') as object).sort(), ['generation', 'jid', 'lid', 'paired', 'phoneNumber', 'registeredAt'])

  const seen = stage.plane.events.length
  await stage.start('qr', { keepPlane: true })
  const again = await waitFor('connected again', () => stage.plane.events.slice(seen).find(event => event.type === 'CONNECTED'))
  assert.equal(again.data['isNewLogin'], false)
  assert.equal(again.data['fingerprint'], connected['fingerprint'])
  assert.deepEqual(stage.plane.events.slice(seen).map(event => event.type), ['CONNECTED'])
  // Names were resolved at the proxy, and the proxy logged in with its password.
  const stats = await stage.simulator.call<{ proxies: Array<{ hosts: Record<string, unknown> }> }>('GET', '/stats')
  assert.match(JSON.stringify(stats.proxies[0]?.hosts), /localhost/)
})

test('a pairing code works instead of a scan, and a command is carried out once', async () => {
  await stage.start('code')
  await stage.plane.event('QR_CODE')
  const command = stage.plane.command('pairing_code', { phone: '972500000102' })
  const { code, phone } = (await stage.plane.event('PAIRING_CODE')).data
  assert.equal(phone, '972500000102')
  assert.deepEqual((await stage.plane.result(command))['result'], { code })
  await stage.simulator.call('POST', '/phones/972500000102/pair-code', { code })
  assert.equal((await stage.plane.event('CONNECTED')).data['phoneNumber'], '972500000102')
  assert.equal(stage.plane.ofType('PAIRING_CODE').length, 1)
  const again = stage.plane.command('pairing_code', { phone: '972500000102' })
  assert.equal((await stage.plane.result(again))['error'], 'the session is paired already')
})

test('unlinked on the phone: parked, auth set aside, still answering; a restart shows a new QR', async () => {
  const worker = await stage.startPaired('unlink', '972500000103')
  await stage.simulator.call('POST', '/phones/972500000103/unlink', {})
  const { data } = await stage.plane.event('DISCONNECTED', ({ reason }) => reason === 'logged_out')
  assert.equal(data['isLoggedOut'], true)
  assert.equal(data['willReconnect'], false)
  await waitFor('a PING while parked', () => stage.plane.pings.find(ping => ping.data['connection'] === 'parked'))
  assert.ok(readdirSync(join(folder, 'unlink')).some(name => name.startsWith('auth-logged-out-')))
  assert.equal(existsSync(join(folder, 'unlink', 'auth')), false)
  const command = stage.plane.command('check_numbers', { phones: ['972500000101'] })
  assert.equal((await stage.plane.result(command))['ok'], false)
  const count = stage.plane.events.length
  await worker.kill('SIGTERM')
  await stage.start('unlink', { keepPlane: true })
  await waitFor('a new QR', () => stage.plane.events.slice(count).find(event => event.type === 'QR_CODE'))
})

test('the logout command unlinks the device and then behaves as logged out', async () => {
  await stage.startPaired('logout', '972500000104')
  const command = stage.plane.command('logout')
  assert.equal((await stage.plane.result(command))['ok'], true)
  await stage.plane.event('DISCONNECTED', ({ reason }) => reason === 'logged_out')
  await waitFor('the device to be gone', async () => {
    const { devices } = await stage.simulator.call<{ devices: unknown[] }>('GET', '/phones/972500000104')
    return devices.length === 0
  })
})

test('replaced by another login (440): parked, no fight', async () => {
  await stage.startPaired('conflict', '972500000105')
  await stage.simulator.faults({ streamError: 440, phone: '972500000105' })
  const { data } = await stage.plane.event('DISCONNECTED', ({ reason }) => reason === 'replaced')
  assert.equal(data['willReconnect'], false)
  await waitFor('parked', () => stage.plane.pings.find(ping => ping.data['connection'] === 'parked'))
  assert.equal(stage.plane.ofType('CONNECTED').length, 1)
})

for (const [code, reason] of [[403, 'forbidden'], [405, 'version_outdated'], [402, 'refused']] as const) {
  test(`a login refused with ${code} parks as ${reason} and keeps the credentials`, async () => {
    const session = `refused${code}`
    const worker = await stage.startPaired(session, `972500000${code}`)
    await worker.kill('SIGTERM')
    await stage.simulator.faults({ refuseLogin: code })
    await stage.start(session, { keepPlane: true })
    const { data } = await stage.plane.event('DISCONNECTED', event => event['reason'] === reason)
    assert.equal(data['code'], code)
    assert.equal((inspect(session) as { paired: boolean }).paired, true)
  })
}

test('a dropped connection and a server that refuses with 503 come back by themselves, without a storm', async () => {
  await stage.startPaired('drop', '972500000107')
  await stage.simulator.faults({ drop: '972500000107' })
  await stage.plane.event('DISCONNECTED', ({ reason }) => reason === 'connection_closed')
  await waitFor('the second CONNECTED', () => stage.plane.ofType('CONNECTED').length === 2)
  await stage.simulator.faults({ refuseLogin: 503 })
  await stage.simulator.faults({ drop: '972500000107' })
  await stage.plane.event('DISCONNECTED', ({ reason }) => reason === 'unavailable')
  await waitFor('several attempts', async () => {
    const stats = await stage.simulator.call<{ logins?: number }>('GET', '/stats')
    return stats !== undefined && stage.plane.pings.length > 6
  })
  assert.equal(stage.plane.ofType('DISCONNECTED').filter(event => event.data['reason'] === 'unavailable').length, 1)
  await stage.simulator.faults({ clear: true })
  await waitFor('the third CONNECTED', () => stage.plane.ofType('CONNECTED').length === 3)
})

test('an HTTP error instead of a WebSocket, and a server that says nothing, are noticed', async () => {
  await stage.simulator.faults({ upgradeStatus: 502 })
  await stage.start('upgrade', { env: { CONNECT_TIMEOUT_MS: '1500' } })
  const { data } = await stage.plane.event('DISCONNECTED', ({ reason }) => reason === 'upgrade_failed')
  assert.equal(data['code'], 502)
  await stage.simulator.faults({ clear: true })
  await stage.simulator.faults({ blackHole: true })
  await stage.plane.event('DISCONNECTED', ({ reason }) => reason === 'stuck_connecting')
  await stage.simulator.faults({ clear: true })
  await stage.plane.event('QR_CODE')
})

test('wrong settings exit with 64 and one sentence', async () => {
  const worker = await stage.start('wrong', { proxy: 'socks5://127.0.0.1:1' })
  assert.equal(await worker.exited, 64)
  assert.equal(worker.stderr, 'PROXY_URL: socks5:// resolves names on this host; write socks5h://.\n')
})

test('damaged credentials exit with 65, say so, and stay as they are', async () => {
  const worker = await stage.startPaired('damaged', '972500000108')
  await worker.kill()
  const path = join(folder, 'damaged', 'auth', 'journal')
  const bytes = readFileSync(path)
  bytes[100] = (bytes[100] ?? 0) ^ 0xff
  writeFileSync(path, bytes)
  const second = await stage.start('damaged', { keepPlane: true })
  assert.equal(await second.exited, 65)
  assert.match(second.stderr, /cannot be read/)
  assert.match(String((await stage.plane.event('AUTH_FAILURE')).data['reason']), /unreadable/)
  assert.deepEqual(readFileSync(path), bytes)
})
