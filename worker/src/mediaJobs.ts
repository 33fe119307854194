/** Which files of incoming messages are still to be fetched; kept on disk until their fate is in the spool. */
import { createHash } from 'node:crypto'
import type { proto } from 'baileys'
import { mediaMessageOf, type InboundMedia } from './inboundContent.ts'
import type { Change, Journal } from './journal.ts'
import type { MediaKind } from './protocol.ts'

export interface MediaJob {
  readonly mediaId: string
  readonly waMessageId: string
  readonly chat: string
  readonly kind: MediaKind
  readonly mimetype: string
  readonly fileName?: string
  readonly sha256?: string
  /** base64 */
  readonly mediaKey: string
  readonly directPath?: string
  readonly url?: string
  readonly at: number
  /** Begun so often; counted before each try, so that a file that kills the worker is given up too. */
  readonly attempts: number
}

/** What the event says about the file, besides what the message itself says. */
export type MediaState =
  | { readonly state: 'pending'; readonly mediaId: string }
  | { readonly state: 'off' | 'too_large' | 'unavailable' }

const PREFIX = 'media:'
/** WhatsApp keeps files for a few weeks; whoever could not fetch one for a week will not. */
const KEEP_MS = 7 * 86_400_000
/** A flood of pictures must not fill memory and disk: what comes beyond is told without its file. */
const MOST = 1_000

export const isMediaKey = (key: string): boolean => key.startsWith(PREFIX)

const keyOf = (mediaId: string): string => PREFIX + mediaId

/** The same for every delivery of a message, by whichever name its sender goes. */
const mediaIdOf = (waMessageId: string, mediaKey: Uint8Array): string =>
  `in_${createHash('sha256').update(waMessageId).update('|').update(mediaKey).digest('hex').slice(0, 24)}`

export class MediaJobs {
  readonly #journal: Journal
  readonly #maxBytes: number
  /** Oldest first. */
  readonly #waiting = new Map<string, number>()
  readonly #notBefore = new Map<string, number>()
  #wake: (() => void) | undefined

  /** `done`: their fate is in the spool, only the job was not removed any more. */
  constructor(journal: Journal, maxBytes: number, done: ReadonlySet<string>) {
    this.#journal = journal
    this.#maxBytes = maxBytes
    const found: MediaJob[] = []
    const leftover: Change[] = []
    for (const [key, value] of journal.entries()) {
      if (!isMediaKey(key)) continue
      const job = JSON.parse(value) as MediaJob
      if (done.has(job.mediaId)) leftover.push([key, null])
      else found.push(job)
    }
    for (const { mediaId, at } of found.sort((a, b) => a.at - b.at)) this.#waiting.set(mediaId, at)
    if (leftover.length > 0) journal.commit(leftover).catch(() => undefined)
  }

  get size(): number {
    return this.#waiting.size
  }

  /** Resolves when the job is on disk, or with the reason why there is none. */
  async keep(
    waMessageId: string,
    chat: string,
    message: proto.IMessage | null | undefined,
    media: InboundMedia,
  ): Promise<MediaState> {
    if (this.#maxBytes === 0) return { state: 'off' }
    if (media.sizeBytes > this.#maxBytes) return { state: 'too_large' }
    const found = mediaMessageOf(message)?.[1]
    if (!found?.mediaKey?.length || !(found.directPath || found.url) || this.#waiting.size >= MOST) return { state: 'unavailable' }
    const job: MediaJob = {
      mediaId: mediaIdOf(waMessageId, found.mediaKey),
      waMessageId,
      chat,
      kind: media.kind,
      mimetype: media.mimetype,
      ...(media.fileName ? { fileName: media.fileName } : {}),
      ...(media.sha256 ? { sha256: media.sha256 } : {}),
      mediaKey: Buffer.from(found.mediaKey).toString('base64'),
      ...(found.directPath ? { directPath: found.directPath } : {}),
      ...(found.url ? { url: found.url } : {}),
      at: Date.now(),
      attempts: 0,
    }
    // Counted at once, so that many at the same time stay within the bound.
    this.#waiting.set(job.mediaId, job.at)
    try {
      await this.#journal.commit([[keyOf(job.mediaId), JSON.stringify(job)]])
    } catch (error) {
      this.#waiting.delete(job.mediaId)
      throw error
    }
    this.#wake?.()
    return { state: 'pending', mediaId: job.mediaId }
  }

  /** The oldest job that may be tried now, and otherwise when to look again. */
  next(now: number): { job?: MediaJob; waitMs?: number } {
    let waitMs: number | undefined
    for (const mediaId of this.#waiting.keys()) {
      const left = (this.#notBefore.get(mediaId) ?? 0) - now
      if (left > 0) {
        waitMs = Math.min(waitMs ?? left, left)
        continue
      }
      const text = this.#journal.get(keyOf(mediaId))
      if (text !== undefined) return { job: JSON.parse(text) as MediaJob }
      this.#waiting.delete(mediaId)
    }
    return waitMs === undefined ? {} : { waitMs }
  }

  static tooOld(job: MediaJob, now: number): boolean {
    return now - job.at > KEEP_MS
  }

  /** Resolves when something may have been added. */
  changed(): Promise<void> {
    return new Promise(resolve => {
      this.#wake = resolve
    })
  }

  async begin(job: MediaJob): Promise<MediaJob> {
    const begun = { ...job, attempts: job.attempts + 1 }
    await this.#journal.commit([[keyOf(job.mediaId), JSON.stringify(begun)]])
    return begun
  }

  later(mediaId: string, at: number): void {
    this.#notBefore.set(mediaId, at)
  }

  async done(mediaId: string): Promise<void> {
    this.#waiting.delete(mediaId)
    this.#notBefore.delete(mediaId)
    await this.#journal.commit([[keyOf(mediaId), null]])
  }
}
