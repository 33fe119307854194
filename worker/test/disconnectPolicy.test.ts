import assert from 'node:assert/strict'
import { test } from 'node:test'
import { backoffMs, judge, Throttle, UpgradeFailed, type NextStep } from '../src/disconnectPolicy.ts'
import { ProxyError, toProxyError } from '../src/proxyErrors.ts'

const boom = (message: string, statusCode: number, data?: unknown): Error =>
  Object.assign(new Error(message), { output: { statusCode }, data })

const cases: ReadonlyArray<[string, number, string, NextStep]> = [
  ['Stream Errored (restart required)', 515, 'restart_required', 'now'],
  ['Connection Terminated', 428, 'connection_closed', 'backoff'],
  ['Connection was lost', 408, 'connection_lost', 'backoff'],
  ['Timed Out', 408, 'timed_out', 'backoff'],
  ['QR refs attempts ended', 408, 'qr_expired', 'now'],
  ['Stream Errored (conflict)', 440, 'replaced', 'park'],
  ['Stream Errored (conflict)', 401, 'logged_out', 'park'],
  ['Connection Failure', 401, 'logged_out', 'park'],
  ['Connection Failure', 403, 'forbidden', 'park'],
  ['Connection Failure', 402, 'refused', 'park'],
  ['Connection Failure', 405, 'version_outdated', 'park'],
  ['Connection Failure', 409, 'refused', 'park'],
  ['Connection Failure', 463, 'restricted', 'park'],
  ['Connection Failure', 500, 'bad_session', 'backoff'],
  ['Connection Failure', 503, 'unavailable', 'backoff'],
  ['Multi-device beta not joined', 411, 'multidevice_mismatch', 'park'],
  ['Intentional Logout', 401, 'logged_out', 'park'],
]

for (const [message, code, reason, next] of cases) {
  test(`${code} "${message}" is ${reason}, then ${next}`, () => {
    const verdict = judge(boom(message, code))
    assert.equal(verdict.reason, reason)
    assert.equal(verdict.next, next)
    assert.equal(verdict.code, code)
  })
}

test('401, 403, 440 and 500 not said by WhatsApp never park', () => {
  for (const code of [401, 403, 440, 500]) assert.equal(judge(boom('WebSocket Error (x)', code)).next, 'backoff')
})

test('a proxy failure inside Baileys wrapping is a proxy error, whatever the number', () => {
  const verdict = judge(boom('WebSocket Error (Socks5 Authentication failed)', 500, new ProxyError('auth', 'Socks5 Authentication failed')))
  assert.equal(verdict.reason, 'proxy_error')
  assert.equal(verdict.proxyError?.kind, 'auth')
})

test('an HTTP error on upgrade and an untrusted certificate have their own names', () => {
  assert.equal(judge(new UpgradeFailed(502)).reason, 'upgrade_failed')
  const tls = Object.assign(new Error('self-signed certificate'), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' })
  assert.equal(judge(boom('WebSocket Error (self-signed certificate)', 500, tls)).reason, 'tls_error')
})

test('proxy errors are told apart by kind', () => {
  const kind = (message: string, code?: string): string => toProxyError(Object.assign(new Error(message), code ? { code } : {})).kind
  assert.equal(kind('Socks5 Authentication failed'), 'auth')
  assert.equal(kind('Received invalid Socks5 initial handshake (no accepted authentication type)'), 'auth')
  assert.equal(kind('connect ECONNREFUSED 127.0.0.1:1', 'ECONNREFUSED'), 'refused')
  assert.equal(kind('connect ECONNREFUSED 127.0.0.1:1'), 'refused')
  assert.equal(kind('Socks5 proxy rejected connection - NotAllowed'), 'refused')
  assert.equal(kind('Proxy connection timed out'), 'timeout')
  assert.equal(kind('getaddrinfo ENOTFOUND x', 'ENOTFOUND'), 'unreachable')
  assert.equal(kind('Socket closed'), 'protocol')
  assert.equal(kind('Received invalid Socks5 initial handshake (invalid socks version)'), 'protocol')
  for (const reply of ['NetworkUnreachable', 'HostUnreachable', 'ConnectionRefused', 'TTLExpired']) {
    assert.equal(kind(`Socks5 proxy rejected connection - ${reply}`), 'target')
  }
})

test('the pause grows from one second to a minute with full jitter', () => {
  assert.equal(backoffMs(0, 1_000, 60_000, 1), 1_000)
  assert.equal(backoffMs(3, 1_000, 60_000, 1), 8_000)
  assert.equal(backoffMs(50, 1_000, 60_000, 1), 60_000)
  assert.equal(backoffMs(50, 1_000, 60_000, 0), 0)
})

test('the same reason is reported once a minute, another one at once', () => {
  const throttle = new Throttle(60_000)
  assert.equal(throttle.allows('a', 0), true)
  assert.equal(throttle.allows('a', 59_999), false)
  assert.equal(throttle.allows('b', 59_999), true)
  assert.equal(throttle.allows('b', 119_999), true)
  throttle.reset()
  assert.equal(throttle.allows('b', 120_000), true)
})
