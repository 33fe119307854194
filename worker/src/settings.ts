/** Reads the environment once into frozen settings; a wrong value is one sentence that says what to write instead. */
import { LOG_LEVELS, type LogLevel } from './log.ts'

export class SettingsError extends Error {}

export interface ProxySettings {
  readonly host: string
  readonly port: number
  readonly user?: string
  readonly password?: string
}

export interface Settings {
  readonly sessionId: string
  readonly sessionsDir: string
  readonly proxy: ProxySettings
  readonly proxyTimeoutMs: number
  readonly webhookUrl: URL
  readonly webhookSecret: string
  readonly keepAlive: boolean
  readonly pingIntervalMs: number
  readonly presenceIntervalMs: number
  readonly selfMessageIntervalMs: number
  readonly logLevel: LogLevel
  readonly waVersion?: readonly [number, number, number]
  readonly waWebSocketUrl?: URL
  readonly waRootPublicKey?: Buffer
  readonly ackTimeoutMs: number
  readonly connectTimeoutMs: number
  readonly reconnectBaseMs: number
  readonly reconnectMaxMs: number
  readonly maxMediaBytes: number
  readonly inboundMediaMaxBytes: number
  readonly spoolMaxBytes: number
  readonly claimWaitMs: number
}

type Env = Readonly<Record<string, string | undefined>>

const SESSION_ID = /^[A-Za-z0-9_-]{1,64}$/

const required = (env: Env, name: string): string => {
  const value = env[name]?.trim()
  if (!value) throw new SettingsError(`${name} is missing; set it in the environment of the worker.`)
  return value
}

const number = (env: Env, name: string, fallback: number, min = 0): number => {
  const text = env[name]?.trim()
  if (!text) return fallback
  const value = Number(text)
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value) || value < min) {
    throw new SettingsError(`${name} must be a whole number of at least ${min}, not "${text}".`)
  }
  return value
}

const yesNo = (env: Env, name: string, fallback: boolean): boolean => {
  const text = env[name]?.trim().toLowerCase()
  if (!text) return fallback
  if (text === 'true' || text === '1') return true
  if (text === 'false' || text === '0') return false
  throw new SettingsError(`${name} must be true or false, not "${text}".`)
}

const url = (name: string, text: string, protocols: readonly string[]): URL => {
  // URL.parse is newer than Node 20, so the throwing constructor is used.
  let parsed: URL | undefined
  try {
    parsed = new URL(text)
  } catch {
    parsed = undefined
  }
  if (parsed === undefined || !protocols.includes(parsed.protocol) || !parsed.hostname) {
    throw new SettingsError(`${name} must be a full address starting with ${protocols.map(p => `${p}//`).join(' or ')}.`)
  }
  return parsed
}

/** The password is never quoted in a message: stderr ends in somebody's log. */
export const parseProxyUrl = (text: string): ProxySettings => {
  const scheme = /^([a-z0-9+.-]+):\/\//i.exec(text)?.[1]?.toLowerCase()
  if (scheme === 'socks5') {
    throw new SettingsError('PROXY_URL: socks5:// resolves names on this host; write socks5h://.')
  }
  if (scheme !== 'socks5h') {
    throw new SettingsError(`PROXY_URL must start with socks5h://${scheme ? `, not ${scheme}://` : ''}.`)
  }
  let parsed: URL
  try {
    // The http scheme makes the URL parser apply its full host and port checks.
    parsed = new URL(text.replace(/^socks5h/i, 'http'))
  } catch {
    throw new SettingsError('PROXY_URL is not a valid address; write socks5h://user:pass@host:port.')
  }
  const port = /:(\d+)\/?$/.exec(text)?.[1]
  if (!parsed.hostname || port === undefined || Number(port) < 1 || Number(port) > 65535) {
    throw new SettingsError('PROXY_URL needs a host and a port; write socks5h://user:pass@host:port.')
  }
  if (parsed.pathname !== '/' || parsed.search || parsed.hash) {
    throw new SettingsError('PROXY_URL ends after the port; percent-encode special characters in user and password.')
  }
  let user: string
  let password: string
  try {
    user = decodeURIComponent(parsed.username)
    password = decodeURIComponent(parsed.password)
  } catch {
    throw new SettingsError('PROXY_URL: user and password must be percent-encoded.')
  }
  // SOCKS5 carries both in one-byte length fields (RFC 1929).
  if (Buffer.byteLength(user) > 255 || Buffer.byteLength(password) > 255) {
    throw new SettingsError('PROXY_URL: user and password may have at most 255 bytes each.')
  }
  const host = parsed.hostname.replace(/^\[(.*)\]$/, '$1')
  return Object.freeze({ host, port: Number(port), ...(user ? { user, password } : {}) })
}

const logLevel = (env: Env): LogLevel => {
  const text = env.LOG_LEVEL?.trim().toLowerCase() || 'info'
  const level = LOG_LEVELS.find(name => name === text)
  if (level === undefined) throw new SettingsError(`LOG_LEVEL must be one of ${LOG_LEVELS.join(', ')}, not "${text}".`)
  return level
}

const waVersion = (env: Env): readonly [number, number, number] | undefined => {
  const text = env.WA_VERSION?.trim()
  if (!text) return undefined
  const match = /^(\d+)\.(\d+)\.(\d+)$/.exec(text)
  if (!match) throw new SettingsError(`WA_VERSION must look like 2.3000.1043857760, not "${text}".`)
  return [Number(match[1]), Number(match[2]), Number(match[3])]
}

const rootKey = (env: Env): Buffer | undefined => {
  const text = env.WA_ROOT_PUBLIC_KEY?.trim()
  if (!text) return undefined
  if (!/^[0-9a-f]{64}$/i.test(text)) throw new SettingsError('WA_ROOT_PUBLIC_KEY must be 64 hexadecimal digits.')
  return Buffer.from(text, 'hex')
}

/** TLS is the only thing that authenticates WhatsApp's server to Baileys, so it can never be turned off. */
const refuseUnverifiedTls = (env: Env): void => {
  if (env.NODE_TLS_REJECT_UNAUTHORIZED === '0') {
    throw new SettingsError('NODE_TLS_REJECT_UNAUTHORIZED=0 turns certificate checks off; remove it (NODE_EXTRA_CA_CERTS adds a CA).')
  }
}

export const readSettings = (env: Env): Settings => {
  refuseUnverifiedTls(env)
  const sessionId = required(env, 'SESSION_ID')
  if (!SESSION_ID.test(sessionId)) {
    throw new SettingsError('SESSION_ID may have letters, digits, _ and -, 1 to 64 characters.')
  }
  const version = waVersion(env)
  const webSocketUrl = env.WA_WEBSOCKET_URL?.trim()
  const root = rootKey(env)
  return Object.freeze({
    sessionId,
    sessionsDir: env.SESSIONS_DIR?.trim() || './sessions',
    proxy: parseProxyUrl(required(env, 'PROXY_URL')),
    // connectTimeoutMs of Baileys does not cover the SOCKS phase; ten seconds is long for a healthy proxy.
    proxyTimeoutMs: number(env, 'PROXY_TIMEOUT_MS', 10_000, 1),
    webhookUrl: url('WEBHOOK_URL', required(env, 'WEBHOOK_URL'), ['http:', 'https:']),
    webhookSecret: required(env, 'WEBHOOK_SECRET'),
    keepAlive: yesNo(env, 'ENABLE_KEEP_ALIVE', true),
    pingIntervalMs: number(env, 'PING_INTERVAL_MS', 15_000),
    presenceIntervalMs: number(env, 'PRESENCE_INTERVAL_MS', 15_000),
    selfMessageIntervalMs: number(env, 'SELF_MESSAGE_INTERVAL_MS', 600_000),
    logLevel: logLevel(env),
    ...(version ? { waVersion: version } : {}),
    ...(webSocketUrl ? { waWebSocketUrl: url('WA_WEBSOCKET_URL', webSocketUrl, ['wss:', 'ws:']) } : {}),
    ...(root ? { waRootPublicKey: root } : {}),
    // WhatsApp acknowledges within a second as a rule; half a minute covers a slow proxy.
    ackTimeoutMs: number(env, 'ACK_TIMEOUT_MS', 30_000, 1),
    // No event at all comes from some dead connections; 45 s is more than any healthy login takes.
    connectTimeoutMs: number(env, 'CONNECT_TIMEOUT_MS', 45_000, 1),
    reconnectBaseMs: number(env, 'RECONNECT_BASE_MS', 1_000, 1),
    reconnectMaxMs: number(env, 'RECONNECT_MAX_MS', 60_000, 1),
    maxMediaBytes: number(env, 'MAX_MEDIA_BYTES', 64 * 1024 * 1024, 1),
    // Pictures, voice notes and most videos; documents may have gigabytes. 0: no file is fetched.
    inboundMediaMaxBytes: number(env, 'INBOUND_MEDIA_MAX_BYTES', 16 * 1024 * 1024),
    spoolMaxBytes: number(env, 'SPOOL_MAX_BYTES', 64 * 1024 * 1024, 1024),
    claimWaitMs: Math.min(60_000, number(env, 'CLAIM_WAIT_MS', 55_000)),
  })
}
