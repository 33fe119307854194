/** What a closed connection means and what to do next; pure. */
import { findProxyError, type ProxyError } from './proxyErrors.ts'

export type DisconnectReason =
  | 'restart_required'
  | 'connection_closed'
  | 'connection_lost'
  | 'timed_out'
  | 'qr_expired'
  | 'unavailable'
  | 'replaced'
  | 'logged_out'
  | 'forbidden'
  | 'restricted'
  | 'version_outdated'
  | 'multidevice_mismatch'
  | 'proxy_error'
  | 'upgrade_failed'
  | 'stuck_connecting'
  | 'tls_error'
  | 'refused'
  | 'bad_session'
  | 'unknown'

/** now: at once; backoff: after a growing pause; park: stay, report, never reconnect by ourselves. */
export type NextStep = 'now' | 'backoff' | 'park'

export interface Verdict {
  readonly reason: DisconnectReason
  readonly code: number | null
  readonly next: NextStep
  readonly detail?: string
  readonly proxyError?: ProxyError
}

/** Causes that only the worker itself can see. */
export class UpgradeFailed extends Error {
  readonly status: number

  constructor(status: number) {
    super(`HTTP ${status} instead of a WebSocket`)
    this.status = status
  }
}
export class StuckConnecting extends Error {}

/** Only these two come from WhatsApp; the same numbers from elsewhere (a proxy, the library) mean something else. */
const SAID_BY_WHATSAPP = /^(Connection Failure|Stream Errored)/

const BY_CODE: Readonly<Record<number, readonly [DisconnectReason, NextStep]>> = {
  401: ['logged_out', 'park'],
  403: ['forbidden', 'park'],
  405: ['version_outdated', 'park'],
  408: ['connection_lost', 'backoff'],
  411: ['multidevice_mismatch', 'park'],
  428: ['connection_closed', 'backoff'],
  429: ['unavailable', 'backoff'],
  440: ['replaced', 'park'],
  463: ['restricted', 'park'],
  500: ['bad_session', 'backoff'],
  515: ['restart_required', 'now'],
}

const TLS_CODE =
  /^(DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|CERT_|ERR_TLS|ERR_SSL|EPROTO|HOSTNAME_MISMATCH|INVALID_CA|PATH_LENGTH)/

const statusCodeOf = (error: Error): number | null => {
  if (!('output' in error) || typeof error.output !== 'object' || error.output === null) return null
  const code = 'statusCode' in error.output ? error.output.statusCode : undefined
  return typeof code === 'number' && Number.isFinite(code) ? code : null
}

const codeInside = (error: Error): string => {
  const inner: unknown = 'data' in error ? error.data : undefined
  return inner instanceof Error && 'code' in inner && typeof inner.code === 'string' ? inner.code : ''
}

const saidByWhatsApp = (code: number): readonly [DisconnectReason, NextStep] => {
  const known = BY_CODE[code]
  if (known) return known
  // A refusal we do not know is the account's or the client's fault: repeating it only makes it worse.
  return code >= 400 && code < 500 ? ['refused', 'park'] : ['unavailable', 'backoff']
}

const seenLocally = (message: string, code: number | null): readonly [DisconnectReason, NextStep] => {
  // What Baileys says after its own logout(): the device was unlinked at our wish.
  if (message === 'Intentional Logout') return ['logged_out', 'park']
  if (/QR refs attempts ended/.test(message)) return ['qr_expired', 'now']
  if (/Multi-device beta not joined/.test(message)) return ['multidevice_mismatch', 'park']
  if (/Connection was lost/.test(message)) return ['connection_lost', 'backoff']
  if (/timed out/i.test(message)) return ['timed_out', 'backoff']
  if (code === 428) return ['connection_closed', 'backoff']
  if (code === 408) return ['timed_out', 'backoff']
  return ['unknown', 'backoff']
}

export const judge = (error: unknown): Verdict => {
  if (!(error instanceof Error)) return { reason: 'connection_closed', code: null, next: 'backoff' }
  const proxyError = findProxyError(error)
  if (proxyError) {
    return { reason: 'proxy_error', code: null, next: 'backoff', detail: proxyError.message, proxyError }
  }
  if (error instanceof UpgradeFailed) {
    return { reason: 'upgrade_failed', code: error.status, next: 'backoff', detail: error.message }
  }
  if (error instanceof StuckConnecting) return { reason: 'stuck_connecting', code: null, next: 'backoff' }
  const code = statusCodeOf(error)
  const detail = error.message
  if (TLS_CODE.test(codeInside(error))) return { reason: 'tls_error', code, next: 'backoff', detail }
  const [reason, next] =
    SAID_BY_WHATSAPP.test(detail) && code !== null ? saidByWhatsApp(code) : seenLocally(detail, code)
  return { reason, code, next, detail }
}

/** A dropped connection may be the proxy's death: these verdicts are worth one probe. */
export const deservesProbe = (verdict: Verdict): boolean =>
  verdict.reason === 'connection_closed' || verdict.reason === 'timed_out' || verdict.reason === 'connection_lost' ||
  verdict.reason === 'stuck_connecting' || verdict.reason === 'unknown'

export const withProxyError = (verdict: Verdict, proxyError: ProxyError): Verdict => ({
  reason: 'proxy_error',
  code: verdict.code,
  next: 'backoff',
  detail: proxyError.message,
  proxyError,
})

/** Full jitter: many workers that lost the same proxy must not come back in step. */
export const backoffMs = (failures: number, baseMs: number, maxMs: number, random: number): number =>
  Math.round(random * Math.min(maxMs, baseMs * 2 ** Math.min(failures, 20)))

/** The same word again is not news: one report per reason and minute, until a connection stood in between. */
export class Throttle {
  readonly #intervalMs: number
  #last: { word: string; at: number } | undefined

  constructor(intervalMs: number) {
    this.#intervalMs = intervalMs
  }

  allows(word: string, now: number): boolean {
    if (this.#last?.word === word && now - this.#last.at < this.#intervalMs) return false
    this.#last = { word, at: now }
    return true
  }

  reset(): void {
    this.#last = undefined
  }
}
