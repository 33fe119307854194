/** Baileys' logger: its objects hold keys, numbers and texts, so only its own fixed sentences pass, at debug level. */
import { safeText, type Log } from './log.ts'

export interface BaileysLogger {
  level: string
  child(fields: Record<string, unknown>): BaileysLogger
  trace(fields: unknown, message?: string): void
  debug(fields: unknown, message?: string): void
  info(fields: unknown, message?: string): void
  warn(fields: unknown, message?: string): void
  error(fields: unknown, message?: string): void
}

const nothing = (): undefined => undefined

export const baileysLogger = (log: Log): BaileysLogger => {
  const say = (level: string) => (_fields: unknown, message?: string): void => {
    if (message !== undefined) log.debug('baileys', { baileys_level: level, message: safeText(message) })
  }
  const logger: BaileysLogger = {
    level: 'warn',
    child: () => logger,
    trace: nothing,
    debug: nothing,
    info: nothing,
    warn: say('warn'),
    error: say('error'),
  }
  return logger
}
