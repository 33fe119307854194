/** Encrypted media files as the media host keeps them, named by their SHA-256. */
import { createHash, randomUUID } from 'node:crypto';
import { createReadStream, createWriteStream, existsSync, mkdirSync, statSync, type ReadStream } from 'node:fs';
import { readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';

const PATH_PREFIX = '/v/t62.0/';

export class BlobStore {
  constructor(private readonly folder: string) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  }

  /** Stores a stream and returns its direct path; complete on disk when this returns. */
  async store(source: Readable): Promise<{ directPath: string; sha256: Buffer }> {
    const temporary = join(this.folder, `${randomUUID()}.tmp`);
    const hash = createHash('sha256');
    const tap = new Transform({
      transform(chunk: Buffer, _, done) {
        hash.update(chunk);
        done(null, chunk);
      }
    });
    try {
      await pipeline(source, tap, createWriteStream(temporary, { mode: 0o600 }));
      const sha256 = hash.digest();
      const name = sha256.toString('base64url');
      await rename(temporary, join(this.folder, name));
      return { directPath: PATH_PREFIX + name, sha256 };
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
  }

  storeBytes(data: Buffer): Promise<{ directPath: string; sha256: Buffer }> {
    return this.store(Readable.from([data]));
  }

  private fileOf(directPath: string): string | undefined {
    const name = directPath.startsWith(PATH_PREFIX) ? directPath.slice(PATH_PREFIX.length) : '';
    if (!/^[\w-]{43}$/.test(name)) return undefined;
    const file = join(this.folder, name);
    return existsSync(file) ? file : undefined;
  }

  open(directPath: string, start = 0, end?: number): { size: number; stream: ReadStream } | undefined {
    const file = this.fileOf(directPath);
    if (!file) return undefined;
    const size = statSync(file).size;
    return { size, stream: createReadStream(file, end === undefined ? { start } : { start, end }) };
  }

  async read(directPath: string): Promise<Buffer | undefined> {
    const file = this.fileOf(directPath);
    return file ? readFile(file) : undefined;
  }
}
