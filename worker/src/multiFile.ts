/** Takes over and gives out Baileys' multi-file form (`creds.json`, `pre-key-1.json`, …) of an auth folder. */
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { CREDS_KEY, JOURNAL_NAME, parseCreds, UnreadableCredentials } from './authState.ts'
import { makeFolder, syncFolder, timestampForName } from './files.ts'
import { readJournal, writeJournal } from './journal.ts'

/** The key types of Baileys; longer names first, so that `sender-key-memory-x` is not read as `sender-key` `memory-x`. */
const TYPES = [
  'app-state-sync-version',
  'app-state-sync-key',
  'sender-key-memory',
  'identity-key',
  'device-list',
  'lid-mapping',
  'sender-key',
  'pre-key',
  'session',
  'tctoken',
] as const

const typeOf = (name: string): (typeof TYPES)[number] | undefined => TYPES.find(type => name.startsWith(`${type}-`))

export const fileNameOf = (key: string): string => `${key.replace(/\//g, '__').replace(/:/g, '-')}.json`

/**
 * Baileys writes `:` as `-` and `/` as `__` in file names. Only ids of app state keys (base64) have slashes, and only
 * group sender keys (`<group>::<user>::<device>`) have colons; old group ids (`<number>-<number>@g.us`) keep their hyphen.
 */
export const keyOf = (fileName: string): string => {
  const name = fileName.replace(/\.json$/, '')
  if (name.startsWith('app-state-sync-key-')) return name.replace(/__/g, '/')
  if (!name.startsWith('sender-key-') || name.startsWith('sender-key-memory-')) return name
  return name.replace(/--([^-]+)--(\d+)$/, '::$1::$2')
}

export const isMultiFileName = (name: string): boolean =>
  name === 'creds.json' || (name.endsWith('.json') && typeOf(name) !== undefined)

const filesIn = (folder: string): string[] => (existsSync(folder) ? readdirSync(folder).filter(isMultiFileName) : [])

const readAll = (folder: string): Map<string, string> => {
  const values = new Map<string, string>()
  for (const name of filesIn(folder)) {
    const text = readFileSync(join(folder, name), 'utf8')
    try {
      // Parsed and written again: one line, whatever the file looked like.
      values.set(name === 'creds.json' ? CREDS_KEY : keyOf(name), JSON.stringify(JSON.parse(text)))
    } catch {
      throw new UnreadableCredentials(`${name} is not valid JSON`)
    }
  }
  const creds = values.get(CREDS_KEY)
  if (creds === undefined) throw new UnreadableCredentials('creds.json is missing')
  parseCreds(creds)
  return values
}

/** Makes a journal from a multi-file folder; the files themselves are not touched. */
export const importMultiFile = (from: string, authFolder: string): number => {
  const path = join(authFolder, JOURNAL_NAME)
  if (existsSync(path)) throw new UnreadableCredentials(`${path} exists already; move it away first`)
  const values = readAll(from)
  makeFolder(authFolder)
  writeJournal(path, values, 1)
  return values.size
}

/** At start: if there is no journal but a multi-file folder, take it over and move the old files aside. */
export const takeOverMultiFile = (sessionFolder: string, now: number): string | undefined => {
  const authFolder = join(sessionFolder, 'auth')
  const source = [authFolder, sessionFolder].find(folder => existsSync(join(folder, 'creds.json')))
  if (source === undefined) return undefined
  // With a journal there, an earlier take-over was cut short after the journal became durable: only the moving is left.
  if (!existsSync(join(authFolder, JOURNAL_NAME))) importMultiFile(source, authFolder)
  const aside = join(sessionFolder, `imported-${timestampForName(now)}`)
  makeFolder(aside)
  // creds.json goes last: it is what makes the next start look here again.
  const names = filesIn(source).sort((a, b) => Number(a === 'creds.json') - Number(b === 'creds.json'))
  for (const name of names) renameSync(join(source, name), join(aside, name))
  syncFolder(source)
  syncFolder(sessionFolder)
  return aside
}

export const exportMultiFile = (authFolder: string, to: string): number => {
  const content = readJournal(join(authFolder, JOURNAL_NAME))
  if (content === undefined) throw new UnreadableCredentials(`there is no journal in ${authFolder}`)
  makeFolder(to)
  let count = 0
  for (const [key, value] of content.values) {
    if (key !== CREDS_KEY && typeOf(key) === undefined) continue
    writeFileSync(join(to, key === CREDS_KEY ? 'creds.json' : fileNameOf(key)), value, { mode: 0o600 })
    count += 1
  }
  return count
}
