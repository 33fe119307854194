/** Brings the files of incoming messages to the control plane, one after the other, and tells what became of each. */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Api } from './api.ts'
import { retryPauseMs, sleep } from './clock.ts'
import type { Connection } from './connection.ts'
import { errorText, type Log } from './log.ts'
import { DamagedMedia } from './mediaCipher.ts'
import { downloadMedia, MediaGone, type Downloaded, type DownloadOptions } from './mediaDownload.ts'
import { MediaJobs, type MediaJob } from './mediaJobs.ts'
import { outcomeOf, type Reporter } from './reporter.ts'
import { tidyUpSoon } from './tidy.ts'

export interface MediaLoopOptions {
  readonly jobs: MediaJobs
  readonly api: Api
  readonly connection: Connection
  readonly reporter: Pick<Reporter, 'emit'>
  readonly folder: string
  readonly download: Omit<DownloadOptions, 'signal'>
  readonly log: Log
}

const PAUSE_BASE_MS = 1_000
const PAUSE_MAX_MS = 300_000
/** About a quarter of an hour with the pauses between. */
const MAX_ATTEMPTS = 10
/** A file that arrives damaged three times is damaged where it lies. */
const MAX_DAMAGED = 3
const UPLOAD_PAUSE_MAX_MS = 30_000
const UPLOAD_TIMEOUT_MS = 600_000
const LOOK_AGAIN_MS = 60_000

export class MediaLoop {
  readonly #options: MediaLoopOptions
  readonly #stop = new AbortController()
  readonly #stopped = new Promise<false>(resolve => {
    this.#stop.signal.addEventListener('abort', () => resolve(false))
  })
  #working: Promise<void> = Promise.resolve()

  constructor(options: MediaLoopOptions) {
    this.#options = options
  }

  async run(): Promise<void> {
    const { jobs } = this.#options
    while (!this.#stop.signal.aborted) {
      const added = jobs.changed()
      const { job, waitMs } = jobs.next(Date.now())
      if (job === undefined) {
        const nap = new AbortController()
        await Promise.race([added, this.#stopped, ...(waitMs === undefined ? [] : [sleep(waitMs, nap.signal)])])
        nap.abort()
        continue
      }
      if (!(await this.#online())) continue
      this.#working = this.#handle(job)
      await this.#working
    }
  }

  /** What was begun is begun again at the next start. */
  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#working
  }

  /** While the proxy is down or the session is connecting, a try would only be wasted. */
  async #online(): Promise<boolean> {
    const { connection } = this.#options
    const reachable = (): boolean => connection.state === 'open' || connection.state === 'parked'
    return Promise.race([connection.waitUntil(reachable, LOOK_AGAIN_MS), this.#stopped])
  }

  async #handle(waiting: MediaJob): Promise<void> {
    const { jobs, folder, download, log } = this.#options
    const fields = { media_id: waiting.mediaId, wa_message_id: waiting.waMessageId }
    const path = join(folder, `${waiting.mediaId}.inbound`)
    try {
      if (MediaJobs.tooOld(waiting, Date.now())) throw new MediaGone('EXPIRED', 'the file could not be fetched for a week')
      if (waiting.attempts >= MAX_ATTEMPTS) throw new MediaGone('UNAVAILABLE', `the file could not be fetched in ${MAX_ATTEMPTS} tries`)
      const job = await jobs.begin(waiting)
      const file = await downloadMedia(job, path, { ...download, signal: this.#stop.signal })
      if (!(await this.#upload(job, path, file))) return
      await this.#tell('MEDIA_READY', job, { ...file })
      log.info('media_fetched', { ...fields, bytes: file.sizeBytes })
    } catch (error) {
      if (this.#stop.signal.aborted) return
      const attempts = waiting.attempts + 1
      const gone =
        error instanceof MediaGone
          ? error
          : error instanceof DamagedMedia && attempts >= MAX_DAMAGED
            ? new MediaGone('DAMAGED', error.message)
            : undefined
      if (gone === undefined) {
        log.warn('media_not_fetched_yet', { ...fields, attempts, error: errorText(error) })
        jobs.later(waiting.mediaId, Date.now() + retryPauseMs(attempts, PAUSE_BASE_MS, PAUSE_MAX_MS))
        return
      }
      log.warn('media_given_up', { ...fields, code: gone.code, error: gone.message })
      await this.#tell('MEDIA_FAILED', waiting, { error: { code: gone.code, message: gone.message } })
    } finally {
      await rm(path, { force: true })
      tidyUpSoon()
    }
  }

  async #tell(type: 'MEDIA_READY' | 'MEDIA_FAILED', job: MediaJob, more: object): Promise<void> {
    const { mediaId, waMessageId, chat, kind, mimetype, fileName } = job
    await this.#options.reporter.emit(type, {
      mediaId,
      waMessageId,
      chat,
      kind,
      mimetype,
      ...(fileName ? { fileName } : {}),
      ...more,
    })
    await this.#options.jobs.done(mediaId)
  }

  /** Until the control plane has it: its being away is no fault of the file. False: we are stopped. */
  async #upload(job: MediaJob, path: string, file: Downloaded): Promise<boolean> {
    const { api, log } = this.#options
    for (let failures = 1; !this.#stop.signal.aborted; failures++) {
      try {
        const options = { timeoutMs: UPLOAD_TIMEOUT_MS, signal: this.#stop.signal }
        const { status } = await api.upload(`/inbound/${job.mediaId}`, path, file, options)
        const outcome = outcomeOf(status)
        if (outcome === 'accepted') return true
        if (status === 413) throw new MediaGone('TOO_LARGE', 'the control plane takes no file of this size')
        if (outcome !== 'again') throw new MediaGone('REFUSED', `the control plane answered ${status}`)
        log.warn('media_not_taken', { media_id: job.mediaId, status })
      } catch (error) {
        if (error instanceof MediaGone) throw error
        log.debug('media_not_delivered', { media_id: job.mediaId, error: errorText(error) })
      }
      await sleep(retryPauseMs(failures, PAUSE_BASE_MS / 2, UPLOAD_PAUSE_MAX_MS), this.#stop.signal)
    }
    return false
  }
}
