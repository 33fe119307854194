import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { proto, useMultiFileAuthState, type AuthenticationCreds } from 'baileys'
import { build } from 'esbuild'
import { AuthState, inspectAuth, UnreadableCredentials } from '../src/authState.ts'
import { readJournal } from '../src/journal.ts'
import { exportMultiFile, fileNameOf, importMultiFile, keyOf, takeOverMultiFile } from '../src/multiFile.ts'
import { newFolder } from './harness/folders.ts'

const emptyFolder = (): string => newFolder('auth')

const pair = (creds: AuthenticationCreds): void => {
  creds.me = { id: '972500000001:3@s.whatsapp.net', lid: '123:3@lid' }
  creds.account = { details: Buffer.from('d') }
}

test('credentials and keys of every kind come back as they were', async () => {
  const folder = emptyFolder()
  const first = await AuthState.open(folder)
  pair(first.creds)
  await first.saveCreds()
  await first.keys.set({
    'pre-key': { '1': { public: Buffer.from('pub'), private: Buffer.from('priv') } },
    session: { '123.0': Buffer.from('session') },
    'lid-mapping': { '972500000002': '999' },
    'device-list': { '972500000002': ['0', '5'] },
    'app-state-sync-key': { 'AA/B+=': { keyData: Buffer.from('key'), timestamp: 7 } },
  })
  await first.close()
  const second = await AuthState.open(folder)
  assert.deepEqual(second.creds.me, first.creds.me)
  assert.deepEqual(Buffer.from(second.creds.noiseKey.private), Buffer.from(first.creds.noiseKey.private))
  const preKeys = await second.keys.get('pre-key', ['1', '2'])
  assert.deepEqual(Buffer.from(preKeys['1']?.private ?? []), Buffer.from('priv'))
  assert.equal('2' in preKeys, false)
  const appKeys = await second.keys.get('app-state-sync-key', ['AA/B+='])
  assert.ok(appKeys['AA/B+='] instanceof proto.Message.AppStateSyncKeyData)
  await second.keys.set({ session: { '123.0': null } })
  assert.deepEqual(await second.keys.get('session', ['123.0']), {})
  await second.close()
})

test('what a caller does to a value it got does not change the store', async () => {
  const auth = await AuthState.open(emptyFolder())
  await auth.keys.set({ 'sender-key-memory': { g: { a: true } } })
  const memory = (await auth.keys.get('sender-key-memory', ['g']))['g'] ?? {}
  memory['b'] = true
  assert.deepEqual((await auth.keys.get('sender-key-memory', ['g']))['g'], { a: true })
  await auth.close()
})

test('a pairing code that was not finished is forgotten at the next start', async () => {
  const folder = emptyFolder()
  const first = await AuthState.open(folder)
  first.creds.me = { id: '972500000001@s.whatsapp.net' }
  await first.saveCreds()
  await first.close()
  const second = await AuthState.open(folder)
  assert.equal(second.creds.me, undefined)
  await second.close()
})

test('unreadable credentials stop the start instead of being replaced', async () => {
  const folder = emptyFolder()
  const auth = await AuthState.open(folder)
  for (let i = 0; i < 5; i++) await auth.keys.set({ 'lid-mapping': { [`${i}`]: 'x'.repeat(50) } })
  await auth.close()
  const path = join(folder, 'journal')
  const bytes = readFileSync(path)
  const middle = Math.floor(bytes.length / 2)
  bytes[middle] = (bytes[middle] ?? 0) ^ 1
  writeFileSync(path, bytes)
  await assert.rejects(AuthState.open(folder), UnreadableCredentials)
  assert.deepEqual(readFileSync(path), bytes)
})

test('inspect tells number and generation but no secret', async () => {
  const folder = emptyFolder()
  assert.equal(inspectAuth(folder), null)
  const auth = await AuthState.open(folder)
  pair(auth.creds)
  await auth.saveCreds()
  const { generation } = auth
  await auth.close()
  assert.deepEqual(inspectAuth(folder), {
    generation,
    paired: true,
    phoneNumber: '972500000001',
    jid: '972500000001:3@s.whatsapp.net',
    lid: '123:3@lid',
  })
})

test('the folder of another program is taken over, its files moved aside, and can be given out again', async () => {
  for (const place of ['', 'auth']) {
    const session = emptyFolder()
    const source = join(session, place)
    mkdirSync(source, { recursive: true })
    const { state, saveCreds } = await useMultiFileAuthState(source)
    pair(state.creds)
    await saveCreds()
    await state.keys.set({
      'pre-key': { '1': { public: Buffer.from('a'), private: Buffer.from('b') } },
      'sender-key': { '111-222@g.us::333_1::4': Buffer.from('s') },
      'app-state-sync-key': { 'AA/B': { timestamp: 1 } },
      tctoken: { __index: { token: Buffer.from('[]') } },
    })
    const names = readdirSync(source).filter(name => name.endsWith('.json')).sort()
    const aside = takeOverMultiFile(session, Date.now())
    assert.ok(aside)
    assert.deepEqual(readdirSync(aside).sort(), names)
    const auth = await AuthState.open(join(session, 'auth'))
    assert.equal(auth.creds.me?.id, state.creds.me?.id)
    assert.ok((await auth.keys.get('sender-key', ['111-222@g.us::333_1::4']))['111-222@g.us::333_1::4'])
    assert.ok((await auth.keys.get('app-state-sync-key', ['AA/B']))['AA/B'])
    assert.ok((await auth.keys.get('tctoken', ['__index']))['__index'])
    await auth.close()
    assert.equal(takeOverMultiFile(session, Date.now()), undefined)
    const out = join(session, 'out')
    exportMultiFile(join(session, 'auth'), out)
    assert.deepEqual(readdirSync(out).sort(), names)
    const again = await useMultiFileAuthState(out)
    assert.equal(again.state.creds.me?.id, state.creds.me?.id)
  }
})

test('a broken folder of another program is refused and left alone', () => {
  const from = emptyFolder()
  writeFileSync(join(from, 'creds.json'), '{"noiseKey":')
  assert.throws(() => importMultiFile(from, join(from, 'auth')), UnreadableCredentials)
  assert.deepEqual(readdirSync(from), ['creds.json'])
})

test('file names and keys translate both ways', () => {
  for (const key of ['pre-key-1', 'session-123_1.0', 'sender-key-1-2@g.us::3_1::0', 'sender-key-memory-1-2@g.us', 'app-state-sync-key-A/B=', 'tctoken-__index']) {
    assert.equal(keyOf(fileNameOf(key)), key)
  }
})

test('60 kills in the middle of writing: always readable, nothing confirmed is lost', { timeout: 60_000 }, async () => {
  const folder = emptyFolder()
  const script = join(folder, 'writer.mjs')
  const entry = fileURLToPath(new URL('harness/journalWriter.ts', import.meta.url))
  await build({ entryPoints: [entry], outfile: script, bundle: true, platform: 'node', format: 'esm', target: 'node20' })
  const path = join(folder, 'auth', 'journal')
  let confirmed = 0
  for (let round = 0; round < 60; round++) {
    const child = spawn(process.execPath, [script, path], { stdio: ['ignore', 'pipe', 'inherit'] })
    let output = ''
    await new Promise<void>(resolve => {
      child.stdout.on('data', (chunk: Buffer) => {
        // The first number shows that it is writing; then a random moment.
        if (output === '') setTimeout(() => child.kill('SIGKILL'), Math.random() * 40)
        output += chunk.toString()
      })
      child.on('close', () => resolve())
    })
    confirmed = Number(output.trim().split('\n').at(-1))
    const values = readJournal(path)?.values
    assert.ok(Number(values?.get('creds')) >= confirmed, `round ${round}`)
    assert.equal(values?.get('session-a')?.split(' ')[0], values?.get('creds'))
  }
  assert.ok(confirmed > 60)
  assert.equal(statSync(path).mode & 0o777, 0o600)
  assert.equal(statSync(join(folder, 'auth')).mode & 0o777, 0o700)
})
