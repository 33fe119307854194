/** Structured log lines on stderr: an event name plus fields; never message text, credentials or whole phone numbers. */
import { writeSync } from 'node:fs'

export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'silent'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]
export type Fields = Record<string, string | number | boolean | null | undefined>

export interface Log {
  debug(event: string, fields?: Fields): void
  info(event: string, fields?: Fields): void
  warn(event: string, fields?: Fields): void
  error(event: string, fields?: Fields): void
}

/** `972501234567@s.whatsapp.net` becomes `*4567@s.whatsapp.net`: enough to follow a case, not enough to call someone. */
export const maskJid = (jid: string): string => {
  const [user = '', server] = jid.split('@')
  return `*${user.slice(-4)}${server === undefined ? '' : `@${server}`}`
}

/** Error texts of libraries may quote addresses and numbers: long digit runs are cut. */
export const safeText = (text: string): string => text.replace(/\d{7,}/g, run => `*${run.slice(-4)}`).slice(0, 300)

export const errorText = (error: unknown): string => safeText(error instanceof Error ? error.message : String(error))

const toStderr = (line: string): void => {
  try {
    // Synchronous: a line written just before process.exit() must not be lost.
    writeSync(2, line)
  } catch {
    // A closed or full stderr must not stop the worker.
  }
}

export const createLog = (level: LogLevel, sessionId: string, write: (line: string) => void = toStderr): Log => {
  const threshold = LOG_LEVELS.indexOf(level)
  const at = (name: LogLevel) => (event: string, fields: Fields = {}): void => {
    if (LOG_LEVELS.indexOf(name) < threshold) return
    write(`${JSON.stringify({ time: new Date().toISOString(), level: name, event, session_id: sessionId, ...fields })}\n`)
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}
