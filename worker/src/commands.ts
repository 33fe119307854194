/** Carries out the control plane's commands, each once, and reports the result as an event. */
import type { WASocket } from 'baileys'
import type { Connection } from './connection.ts'
import type { Ledger } from './ledger.ts'
import { errorText, type Log } from './log.ts'
import type { Command } from './protocol.ts'
import type { Reporter } from './reporter.ts'

export interface CommandsOptions {
  readonly connection: Connection
  readonly ledger: Ledger
  readonly reporter: Reporter
  readonly log: Log
}

type Args = Readonly<Record<string, unknown>>
type Result = Readonly<Record<string, unknown>>

/** A new worker needs about a second to its first QR; a slow proxy may need many. */
const WAIT_FOR_QR_MS = 30_000

const text = (args: Args, name: string): string => {
  const value = args[name]
  if (typeof value !== 'string' || !value) throw new Error(`${name} must be a non-empty text`)
  return value
}

const texts = (args: Args, name: string): string[] => {
  const value = args[name]
  if (!Array.isArray(value) || value.length === 0) throw new Error(`${name} must be a non-empty list`)
  return value.map((item: unknown) => {
    if (typeof item !== 'string' || !item) throw new Error(`${name} must hold texts`)
    return item
  })
}

const digits = (phone: string): string => phone.replace(/\D/g, '')

const checkNumbers = async (sock: WASocket, phones: readonly string[], ledger: Ledger): Promise<Result> => {
  const jids = phones.map(phone => `${digits(phone)}@s.whatsapp.net`)
  const found = await sock.onWhatsApp(...jids)
  if (found === undefined) throw new Error('WhatsApp did not answer')
  const numbers = await Promise.all(
    phones.map(async (phone, index) => {
      const jid = jids[index] ?? ''
      // Absent numbers are missing from the answer.
      const entry = found.find(one => digits(one.jid.split('@')[0] ?? '') === digits(phone))
      const exists = entry?.exists === true
      await ledger.rememberNumber(jid, exists, Date.now())
      const lid = exists ? await sock.signalRepository.lidMapping.getLIDForPN(jid).catch(() => null) : null
      return { phone, exists, ...(exists ? { jid: entry.jid } : {}), ...(lid ? { lid } : {}) }
    }),
  )
  return { numbers }
}

export class Commands {
  readonly #options: CommandsOptions
  readonly #running = new Set<string>()

  constructor(options: CommandsOptions) {
    this.#options = options
  }

  /** Starts a command unless it is under way or was carried out before; a failed one is an answer too. */
  run(command: Command): void {
    const { commandId } = command
    if (typeof commandId !== 'string' || this.#running.has(commandId) || this.#options.ledger.commandDone(commandId)) return
    this.#running.add(commandId)
    void this.#carryOut(command)
      .catch((error: unknown) => this.#options.log.error('command_broken', { command_id: commandId, error: errorText(error) }))
      .finally(() => this.#running.delete(commandId))
  }

  async #carryOut({ commandId, name, args }: Command): Promise<void> {
    const { ledger, reporter, log } = this.#options
    let outcome: Result
    try {
      outcome = { commandId, ok: true, result: await this.#execute(name, args ?? {}) }
    } catch (error) {
      outcome = { commandId, ok: false, error: errorText(error) }
    }
    log.info('command_done', { command_id: commandId, name, ok: outcome['ok'] === true })
    // The result first: if we die in between, the command is delivered and carried out again rather than lost.
    await reporter.emit('COMMAND_RESULT', outcome)
    await ledger.markCommandDone(commandId, Date.now())
  }

  async #execute(name: string, args: Args): Promise<Result> {
    const { connection, reporter, ledger } = this.#options
    switch (name) {
      case 'pairing_code': {
        const phone = digits(text(args, 'phone'))
        const code = await connection.requestPairingCode(phone, WAIT_FOR_QR_MS)
        await reporter.emit('PAIRING_CODE', { code, phone })
        return { code }
      }
      case 'logout':
        await connection.requireSocket().logout()
        return {}
      case 'check_numbers':
        return checkNumbers(connection.requireSocket(), texts(args, 'phones'), ledger)
      case 'mark_read': {
        const chat = text(args, 'chat')
        const participant = typeof args['participant'] === 'string' ? { participant: args['participant'] } : {}
        const keys = texts(args, 'waMessageIds').map(id => ({ remoteJid: chat, id, fromMe: false, ...participant }))
        await connection.requireSocket().readMessages(keys)
        return {}
      }
      default:
        throw new Error(`unknown command ${name}`)
    }
  }
}
