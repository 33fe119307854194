import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseProxyUrl, readSettings, SettingsError } from '../src/settings.ts'

const good = {
  SESSION_ID: 'worker_7',
  PROXY_URL: 'socks5h://user:p%40ss@proxy.example:1080',
  WEBHOOK_URL: 'http://172.28.0.3:3000/api/webhook',
  WEBHOOK_SECRET: 'secret',
}

const refuses = (change: Record<string, string | undefined>, sentence: RegExp): void => {
  assert.throws(
    () => readSettings({ ...good, ...change }),
    (error: unknown) => error instanceof SettingsError && sentence.test(error.message) && !error.message.includes('\n'),
  )
}

test('a full environment gives settings with defaults', () => {
  const settings = readSettings(good)
  assert.deepEqual(settings.proxy, { host: 'proxy.example', port: 1080, user: 'user', password: 'p@ss' })
  assert.equal(settings.keepAlive, true)
  assert.equal(settings.pingIntervalMs, 15_000)
  assert.equal(settings.selfMessageIntervalMs, 600_000)
  assert.equal(settings.waVersion, undefined)
})

test('every missing or wrong value is one sentence that names it', () => {
  for (const name of ['SESSION_ID', 'PROXY_URL', 'WEBHOOK_URL', 'WEBHOOK_SECRET']) refuses({ [name]: '' }, new RegExp(`^${name}`))
  refuses({ SESSION_ID: '../x' }, /SESSION_ID may have letters/)
  refuses({ PROXY_URL: 'socks5://h:1' }, /socks5:\/\/ resolves names on this host; write socks5h:\/\//)
  refuses({ PROXY_URL: 'http://h:1' }, /must start with socks5h/)
  refuses({ PROXY_URL: 'socks5h://host' }, /host and a port/)
  refuses({ PROXY_URL: 'socks5h://:1080' }, /PROXY_URL/)
  refuses({ PROXY_URL: 'socks5h://h:0' }, /host and a port/)
  refuses({ PROXY_URL: 'socks5h://h:99999' }, /PROXY_URL/)
  refuses({ WEBHOOK_URL: 'ftp://x/y' }, /WEBHOOK_URL/)
  refuses({ PING_INTERVAL_MS: '-1' }, /PING_INTERVAL_MS/)
  refuses({ ENABLE_KEEP_ALIVE: 'maybe' }, /ENABLE_KEEP_ALIVE/)
  refuses({ LOG_LEVEL: 'loud' }, /LOG_LEVEL/)
  refuses({ WA_VERSION: '2' }, /WA_VERSION/)
  refuses({ WA_ROOT_PUBLIC_KEY: 'xyz' }, /WA_ROOT_PUBLIC_KEY/)
  refuses({ NODE_TLS_REJECT_UNAUTHORIZED: '0' }, /certificate checks off/)
})

test('the password never appears in a message', () => {
  for (const url of ['socks5://u:geheim@h:1', 'http://u:geheim@h:1', 'socks5h://u:geheim@h', 'socks5h://u:geheim@h:1/x']) {
    assert.throws(
      () => parseProxyUrl(url),
      (error: unknown) => error instanceof SettingsError && !error.message.includes('geheim'),
    )
  }
})

test('an IPv6 proxy and one without a password are accepted', () => {
  assert.deepEqual(parseProxyUrl('socks5h://[::1]:1080'), { host: '::1', port: 1080 })
  assert.deepEqual(parseProxyUrl('socks5h://10.0.0.1:80'), { host: '10.0.0.1', port: 80 })
})
