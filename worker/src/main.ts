/** The program: settings, signals and exit codes around one worker. */
import './console.ts'
import { writeSync } from 'node:fs'
import { UnreadableCredentials } from './authState.ts'
import { createLog, errorText } from './log.ts'
import { readSettings, SettingsError } from './settings.ts'
import { isTool, runTool } from './tools.ts'
import { startWorker } from './worker.ts'

const EXIT_USAGE = 64
const EXIT_CREDENTIALS = 65
const EXIT_CRASH = 70
/** The last resort, should a part of the orderly stop hang. */
const HARD_STOP_MS = 9_500

const leave = (error: unknown): never => {
  if (error instanceof SettingsError) {
    writeSync(2, `${error.message}\n`)
    process.exit(EXIT_USAGE)
  }
  if (error instanceof UnreadableCredentials) {
    writeSync(2, `The credentials of this session cannot be read: ${error.message}. Restore a backup, or remove the auth folder to pair anew.\n`)
    process.exit(EXIT_CREDENTIALS)
  }
  writeSync(2, `${errorText(error)}\n`)
  process.exit(EXIT_CRASH)
}

const serve = async (): Promise<void> => {
  const settings = readSettings(process.env)
  const log = createLog(settings.logLevel, settings.sessionId)
  process.on('uncaughtException', error => {
    log.error('uncaught_exception', { error: errorText(error) })
    process.exit(EXIT_CRASH)
  })
  // Baileys leaves some promises of a closed socket unattended; none of them is a reason to drop the session.
  process.on('unhandledRejection', error => log.warn('unhandled_rejection', { error: errorText(error) }))
  let stopping = false
  const worker = startWorker(settings, log)
  const stop = (signal: string): void => {
    if (stopping) return
    stopping = true
    log.info('stopping', { signal })
    setTimeout(() => process.exit(0), HARD_STOP_MS).unref()
    worker.then(running => running.stop()).then(() => process.exit(0), leave)
  }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
  // A closed terminal or a dead parent is no reason to go: the control plane adopts running workers.
  process.on('SIGHUP', () => log.info('hangup_ignored'))
  await worker
  log.info('started', { pid: process.pid })
}

const [, , word, ...rest] = process.argv
try {
  if (isTool(word)) process.stdout.write(`${runTool(word, rest)}\n`)
  else if (word !== undefined) throw new SettingsError(`unknown command ${word}; without one, the worker runs.`)
  else await serve()
} catch (error) {
  leave(error)
}
