/** Opens the encrypted file of a media message as it streams by, and refuses one that was changed on its way. */
import { createDecipheriv, createHash, createHmac, timingSafeEqual, type Hash, type Hmac } from 'node:crypto'
import { Transform, type TransformCallback } from 'node:stream'
import { getMediaKeys } from 'baileys'
import type { MediaKind } from './protocol.ts'

/** The file ends with the first bytes of its HMAC. */
const MAC_BYTES = 10

export class DamagedMedia extends Error {}

/** Plaintext comes out before the file is proved: nobody may use it unless the stream ends without an error. */
export class OpenMedia extends Transform {
  readonly #decipher: ReturnType<typeof createDecipheriv>
  readonly #mac: Hmac
  readonly #hash: Hash = createHash('sha256')
  readonly #expected: string | undefined
  #tail: Buffer = Buffer.alloc(0)
  #size = 0
  #sha256 = ''

  private constructor(keys: { cipherKey: Uint8Array; iv: Uint8Array; macKey: Uint8Array }, sha256: string | undefined) {
    super()
    this.#decipher = createDecipheriv('aes-256-cbc', keys.cipherKey, keys.iv)
    this.#mac = createHmac('sha256', keys.macKey).update(keys.iv)
    this.#expected = sha256
  }

  static async with(mediaKey: Uint8Array, kind: MediaKind, sha256: string | undefined): Promise<OpenMedia> {
    const { cipherKey, iv, macKey } = await getMediaKeys(mediaKey, kind)
    if (!macKey) throw new DamagedMedia('no key to check the file with')
    return new OpenMedia({ cipherKey, iv, macKey }, sha256)
  }

  /** Of the plaintext; known when the stream has ended. */
  get sizeBytes(): number {
    return this.#size
  }

  get sha256(): string {
    return this.#sha256
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    const bytes = this.#tail.length > 0 ? Buffer.concat([this.#tail, chunk]) : chunk
    const end = Math.max(0, bytes.length - MAC_BYTES)
    this.#tail = Buffer.from(bytes.subarray(end))
    const ciphertext = bytes.subarray(0, end)
    this.#mac.update(ciphertext)
    this.#give(this.#decipher.update(ciphertext))
    done()
  }

  override _flush(done: TransformCallback): void {
    const mac = this.#mac.digest().subarray(0, MAC_BYTES)
    if (this.#tail.length !== MAC_BYTES || !timingSafeEqual(mac, this.#tail)) {
      done(new DamagedMedia('the file is not what was sent: its check sum is wrong'))
      return
    }
    try {
      this.#give(this.#decipher.final())
    } catch {
      done(new DamagedMedia('the file cannot be decrypted'))
      return
    }
    this.#sha256 = this.#hash.digest('hex')
    const wrong = this.#expected !== undefined && this.#expected !== this.#sha256
    done(wrong ? new DamagedMedia('the file is not the one that the message names') : null)
  }

  #give(plain: Buffer): void {
    this.#hash.update(plain)
    this.#size += plain.length
    if (plain.length > 0) this.push(plain)
  }
}
