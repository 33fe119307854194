/** Assembles the rooms of one worker; start and stop order. */
import { existsSync, renameSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { WA_CERT_DETAILS } from 'baileys'
import { Acks } from './acks.ts'
import { Api } from './api.ts'
import { AuthState, UnreadableCredentials } from './authState.ts'
import { sleep } from './clock.ts'
import { Commands } from './commands.ts'
import { Connection } from './connection.ts'
import { chooseDescription } from './device.ts'
import { createEgress } from './egress.ts'
import { makeFolder, timestampForName } from './files.ts'
import { Heartbeat } from './heartbeat.ts'
import { Inbound } from './inbound.ts'
import { Journal } from './journal.ts'
import { CorruptJournal } from './journalFrames.ts'
import { isLedgerKey, keepLedgerEntry, Ledger } from './ledger.ts'
import { Lifecycle } from './lifecycle.ts'
import { errorText, type Log } from './log.ts'
import { isMediaKey, MediaJobs } from './mediaJobs.ts'
import { MediaLoop } from './mediaLoop.ts'
import { keepMessage, MessageStore } from './messageStore.ts'
import { takeOverMultiFile } from './multiFile.ts'
import { Outbox } from './outbox.ts'
import { Proofs } from './proofs.ts'
import { Reported } from './reported.ts'
import { Reporter } from './reporter.ts'
import { retryCounters } from './retryCounters.ts'
import { Sender } from './sender.ts'
import type { Settings } from './settings.ts'
import { Spool } from './spool.ts'
import { tidyUpSoon } from './tidy.ts'

/** Together below the ten seconds after which a launcher loses its patience. */
const STOP_SENDING_MS = 6_500
const STOP_CONNECTION_MS = 1_000
const STOP_REPORTING_MS = 1_500
/** How long a worker that cannot start tries to say why. */
const LAST_WORDS_MS = 3_000

export interface RunningWorker {
  stop(): Promise<void>
}

const openSendJournal = async (folder: string, log: Log): Promise<Journal> => {
  const path = join(folder, 'outbox', 'journal')
  const keep = (key: string, value: string): boolean => {
    // A file that was never fetched is told about before it goes.
    if (isMediaKey(key)) return true
    return isLedgerKey(key) ? keepLedgerEntry(key, value, Date.now()) : keepMessage(value, Date.now())
  }
  try {
    return await Journal.open(path, [], keep)
  } catch (error) {
    if (!(error instanceof CorruptJournal)) throw error
    // Without it a message in doubt may go out twice under one id; without the session nothing goes out at all.
    renameSync(path, `${path}.broken-${timestampForName(Date.now())}`)
    log.error('ledger_broken', { error: error.message })
    return Journal.open(path, [], keep)
  }
}

const openAuth = async (folder: string, reporter: Reporter, log: Log): Promise<AuthState> => {
  try {
    const aside = takeOverMultiFile(folder, Date.now())
    if (aside !== undefined) log.info('multi_file_imported', { moved_to: aside })
    return await AuthState.open(join(folder, 'auth'))
  } catch (error) {
    if (!(error instanceof UnreadableCredentials)) throw error
    await reporter.emit('AUTH_FAILURE', { reason: `credentials unreadable: ${error.message}` })
    void reporter.run()
    await reporter.stop(LAST_WORDS_MS)
    throw error
  }
}

/** Baileys writes media through the temporary folder; a crash must not leave it where others can look. */
const useOwnTemporaryFolder = (folder: string): string => {
  const path = join(folder, 'tmp')
  rmSync(path, { recursive: true, force: true })
  makeFolder(path)
  process.env['TMPDIR'] = path
  return path
}

const controlPlaneOf = (url: URL): { host: string; port: number } => ({
  host: url.hostname,
  port: Number(url.port) || (url.protocol === 'https:' ? 443 : 80),
})

const mediaIdIn = (body: string): string => (JSON.parse(body) as { data: { mediaId: string } }).data.mediaId

export const startWorker = async (settings: Settings, log: Log): Promise<RunningWorker> => {
  process.umask(0o077)
  const folder = resolve(settings.sessionsDir, settings.sessionId)
  makeFolder(folder)
  const tmp = useOwnTemporaryFolder(folder)
  const egress = createEgress(settings.proxy, settings.proxyTimeoutMs, controlPlaneOf(settings.webhookUrl))
  if (settings.waRootPublicKey) WA_CERT_DETAILS.PUBLIC_KEY = Buffer.from(settings.waRootPublicKey)

  const api = new Api(settings)
  const reported = new Reported()
  const mediaTold = new Set<string>()
  const spool = Spool.open(join(folder, 'events'), {
    maxBytes: settings.spoolMaxBytes,
    onStored: ({ type, body }) => {
      if (type === 'MESSAGE_RECEIVED') reported.addEvent(body)
      if (type === 'MEDIA_READY' || type === 'MEDIA_FAILED') mediaTold.add(mediaIdIn(body))
    },
    onProblem: (event, detail) => log.error(event, { detail }),
    notes: () => reported.notes(),
    onNote: note => reported.addNote(note),
  })
  const reporter = new Reporter({ api, spool, sessionId: settings.sessionId, log })
  const auth = await openAuth(folder, reporter, log)
  const browser = auth.meta.browser ?? chooseDescription(settings.sessionId)
  if (!auth.meta.browser) await auth.saveMeta({ browser: [browser[0], browser[1], browser[2]] })

  const journal = await openSendJournal(folder, log)
  const ledger = new Ledger(journal)
  const store = new MessageStore(journal)
  const acks = new Acks()
  const proofs = new Proofs({ acks, ledger, reporter, log })
  const setAuthAside = async (): Promise<void> => {
    await auth.close()
    const from = join(folder, 'auth')
    if (existsSync(from)) renameSync(from, join(folder, `auth-logged-out-${timestampForName(Date.now())}`))
  }
  const lifecycle = new Lifecycle({ auth, reporter, proxy: settings.proxy, browser, setAuthAside, log })
  const mediaJobs = new MediaJobs(journal, settings.inboundMediaMaxBytes, mediaTold)
  const inbound = new Inbound({
    reporter,
    reported,
    opened: auth.opened,
    me: () => auth.creds.me,
    phoneJidOf: lid => auth.phoneJidOf(lid),
    media: mediaJobs,
    sentMessage: waMessageId => store.get(waMessageId),
    log,
  })
  const reportLeftovers = (): void => auth.opened.leftovers().forEach(leftover => inbound.onLeftover(leftover))
  reportLeftovers()

  const failed = (event: string) => (error: unknown): void => log.error(event, { error: errorText(error) })
  const connection: Connection = new Connection({
    settings,
    auth,
    egress,
    browser: [browser[0], browser[1], browser[2]],
    getMessage: async key => (key.id ? store.get(key.id) : undefined),
    retryCounters: retryCounters(),
    log,
    events: {
      onQr: (qr, expiresInMs) => lifecycle.onQr(qr, expiresInMs),
      onOpen: sock => {
        lifecycle.onOpen(sock).catch(failed('connected_not_reported'))
        tidyUpSoon()
      },
      onClosed: (verdict, retryInMs) => {
        acks.closeAll()
        reportLeftovers()
        return lifecycle.onClosed(verdict, retryInMs)
      },
      onCreds: () => void auth.saveCreds().catch(failed('creds_not_saved')),
      onMessageAck: node => proofs.onAck(node),
      onMessages: event => inbound.onMessages(event),
      onUpdates: event => proofs.onReceipts(event),
      onReceipt: node => inbound.onReceipt(node),
    },
  })
  const media = { api, folder: tmp, maxBytes: settings.maxMediaBytes, fetchOptions: egress.fetchOptions }
  const sender = new Sender({ connection, journal, ledger, store, acks, media, ackTimeoutMs: settings.ackTimeoutMs, log })
  const commands = new Commands({ connection, ledger, reporter, log })
  const runCommand = commands.run.bind(commands)
  const outbox = new Outbox({ api, connection, sender, runCommand, waitMs: settings.claimWaitMs, log })
  const mediaLoop = new MediaLoop({
    jobs: mediaJobs,
    api,
    connection,
    reporter,
    folder: tmp,
    download: { agent: egress.uploads, maxBytes: settings.inboundMediaMaxBytes, otherHost: settings.waWebSocketUrl?.hostname },
    log,
  })
  const heartbeat = new Heartbeat({ settings, connection, reporter, acks, log })

  const crash = (error: unknown): void => {
    log.error('crash', { error: errorText(error) })
    process.exit(70)
  }
  connection.run().catch(crash)
  reporter.run().catch(crash)
  outbox.run().catch(crash)
  mediaLoop.run().catch(crash)
  heartbeat.start()

  return {
    stop: async () => {
      heartbeat.stop()
      await Promise.race([Promise.all([outbox.stop(), mediaLoop.stop()]), sleep(STOP_SENDING_MS)])
      await connection.stop(STOP_CONNECTION_MS)
      await reporter.stop(STOP_REPORTING_MS)
      await Promise.race([Promise.allSettled([auth.close(), journal.close(), spool.close()]), sleep(STOP_CONNECTION_MS)])
      api.close()
    },
  }
}
