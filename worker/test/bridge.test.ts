import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import * as original from 'whatsapp-rust-bridge'
import * as ours from '../src/bridge.ts'

const plain = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

test('our four functions give the same bytes as the WASM they replace', () => {
  for (let round = 0; round < 50; round++) {
    const data = randomBytes(1 + round)
    assert.equal(plain(ours.md5(data)), plain(original.md5(data)))
    for (const options of [{ info: 'WhatsApp Image Keys' }, { salt: randomBytes(32), info: '' }, { info: randomBytes(20).toString('latin1') }]) {
      assert.equal(plain(ours.hkdf(data, 112, options)), plain(original.hkdf(data, 112, options)))
    }
    const mine = ours.expandAppStateKeys(data)
    const theirs = original.expandAppStateKeys(data)
    for (const name of ['indexKey', 'valueEncryptionKey', 'valueMacKey', 'snapshotMacKey', 'patchMacKey'] as const) {
      assert.equal(plain(mine[name]), plain(theirs[name]))
    }
    const base = round === 0 ? Buffer.alloc(128) : randomBytes(128)
    const [away, added] = [[randomBytes(32), randomBytes(32)], [randomBytes(32)]]
    assert.equal(
      plain(new ours.LTHashAntiTampering().subtractThenAdd(base, away, added)),
      plain(new original.LTHashAntiTampering().subtractThenAdd(base, away, added)),
    )
  }
})

test('Baileys uses nothing else of it', () => {
  const used = ['crypto', 'chat-utils', 'lt-hash'].map(name =>
    readFileSync(new URL(`../../node_modules/baileys/lib/Utils/${name}.js`, import.meta.url), 'utf8'),
  )
  const names = used.flatMap(text => /[{]([^}]*)[}] from 'whatsapp-rust-bridge'/.exec(text)?.[1]?.split(',') ?? []).map(name => name.trim())
  assert.deepEqual(names.sort(), ['LTHashAntiTampering', 'expandAppStateKeys', 'hkdf', 'md5'])
})
