/** Tells the failures of a SOCKS5 proxy apart by kind; pure. */

export const PROXY_ERROR_KINDS = ['auth', 'refused', 'timeout', 'unreachable', 'protocol', 'target'] as const
export type ProxyErrorKind = (typeof PROXY_ERROR_KINDS)[number]

/** Thrown by everything that happens before the tunnel stands, so that it is never mistaken for WhatsApp's word. */
export class ProxyError extends Error {
  readonly code = 'EPROXY'
  readonly kind: ProxyErrorKind

  constructor(kind: ProxyErrorKind, message: string) {
    super(message)
    this.name = 'ProxyError'
    this.kind = kind
  }
}

const KIND_OF_ERRNO: Readonly<Record<string, ProxyErrorKind>> = {
  ECONNREFUSED: 'refused',
  ETIMEDOUT: 'timeout',
  EHOSTUNREACH: 'unreachable',
  ENETUNREACH: 'unreachable',
  ENETDOWN: 'unreachable',
  EHOSTDOWN: 'unreachable',
  ENOTFOUND: 'unreachable',
  EAI_AGAIN: 'unreachable',
  ECONNRESET: 'protocol',
  EPIPE: 'protocol',
}

/** Replies 3 to 6 come from a proxy that works but could not reach the target; 1 and 2 are the proxy's own refusal. */
const KIND_OF_REPLY: Readonly<Record<string, ProxyErrorKind>> = {
  Failure: 'refused',
  NotAllowed: 'refused',
  NetworkUnreachable: 'target',
  HostUnreachable: 'target',
  ConnectionRefused: 'target',
  TTLExpired: 'target',
}

const kindOf = (code: string, message: string): ProxyErrorKind => {
  // The socks package wraps system errors and keeps their number only in the text.
  const byErrno = KIND_OF_ERRNO[code || (/\b(E[A-Z_]{3,})\b/.exec(message)?.[1] ?? '')]
  if (byErrno) return byErrno
  if (/timed out/i.test(message)) return 'timeout'
  if (/authentication failed|no accepted authentication/i.test(message)) return 'auth'
  const reply = /rejected connection - (\w+)/.exec(message)?.[1]
  return (reply !== undefined ? KIND_OF_REPLY[reply] : undefined) ?? 'protocol'
}

export const toProxyError = (error: unknown): ProxyError => {
  if (error instanceof ProxyError) return error
  const message = error instanceof Error ? error.message : String(error)
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
  return new ProxyError(kindOf(code, message), message)
}

/** Finds a ProxyError inside the wrappers that Baileys (`data`) and fetch (`cause`) put around it. */
export const findProxyError = (error: unknown): ProxyError | undefined => {
  let current: unknown = error
  for (let depth = 0; depth < 6 && current instanceof Error; depth++) {
    if (current instanceof ProxyError) return current
    current = 'data' in current && current.data instanceof Error ? current.data : current.cause
  }
  return undefined
}
