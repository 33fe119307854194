/** Tells the control plane how the connection fares: QR codes, connected, disconnected, proxy errors, without a storm. */
import type { WASocket } from 'baileys'
import type { AuthState } from './authState.ts'
import { fingerprintOf } from './device.ts'
import { Throttle, type Verdict } from './disconnectPolicy.ts'
import { safeText, type Log } from './log.ts'
import type { Reporter } from './reporter.ts'
import type { ProxySettings } from './settings.ts'

export interface LifecycleOptions {
  readonly auth: AuthState
  readonly reporter: Reporter
  readonly proxy: ProxySettings
  readonly browser: readonly string[]
  /** Moves the auth folder aside; the next start begins with a new QR. */
  readonly setAuthAside: () => Promise<void>
  readonly log: Log
}

const REPEAT_AFTER_MS = 60_000

export class Lifecycle {
  readonly #options: LifecycleOptions
  readonly #disconnects = new Throttle(REPEAT_AFTER_MS)
  readonly #proxyErrors = new Throttle(REPEAT_AFTER_MS)

  constructor(options: LifecycleOptions) {
    this.#options = options
  }

  onQr(qr: string, expiresInMs: number): void {
    this.#options.log.info('qr_code', { expires_in_ms: expiresInMs })
    void this.#options.reporter.emit('QR_CODE', { qr, expiresInMs })
  }

  async onOpen(sock: WASocket): Promise<void> {
    const { auth, reporter, browser, log } = this.#options
    this.#disconnects.reset()
    this.#proxyErrors.reset()
    const me = sock.user
    const jid = me?.id ?? ''
    const isNewLogin = auth.meta.registeredAt === undefined
    if (isNewLogin) await auth.saveMeta({ registeredAt: Date.now() })
    log.info('connected', { is_new_login: isNewLogin })
    await reporter.emit('CONNECTED', {
      phoneNumber: /^\d+/.exec(jid)?.[0] ?? '',
      jid,
      ...(me?.lid ? { lid: me.lid } : {}),
      ...(me?.name ? { name: me.name } : {}),
      fingerprint: fingerprintOf(browser),
      isNewLogin,
    })
  }

  async onClosed(verdict: Verdict, retryInMs: number | undefined): Promise<void> {
    const { reporter, proxy, log } = this.#options
    const { reason, code, proxyError } = verdict
    const isLoggedOut = reason === 'logged_out'
    log.warn('disconnected', { reason, code, kind: proxyError?.kind, retry_in_ms: retryInMs })
    if (isLoggedOut) await this.#options.setAuthAside()
    const now = Date.now()
    const events: Promise<void>[] = []
    if (proxyError && this.#proxyErrors.allows(proxyError.kind, now)) {
      const error = safeText(proxyError.message)
      events.push(reporter.emit('PROXY_ERROR', { error, kind: proxyError.kind, host: proxy.host, port: proxy.port }))
    }
    if (this.#disconnects.allows(reason, now)) {
      events.push(
        reporter.emit('DISCONNECTED', {
          reason,
          code,
          // A proxy that answers but cannot reach WhatsApp is not broken itself.
          isProxyError: proxyError !== undefined && proxyError.kind !== 'target',
          isLoggedOut,
          willReconnect: retryInMs !== undefined,
          ...(retryInMs === undefined ? {} : { retryInMs }),
          ...(verdict.detail ? { detail: safeText(verdict.detail) } : {}),
        }),
      )
    }
    await Promise.all(events)
  }
}
