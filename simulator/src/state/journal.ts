/** An append-only file of JSON lines; a line is one atomic change, a torn last line never happened. */
import { closeSync, fstatSync, openSync, readSync, renameSync, writeSync } from 'node:fs';

const READ_CHUNK_BYTES = 4 * 1024 * 1024;
const WRITE_CHUNK_BYTES = 1024 * 1024;

const writeFully = (fd: number, data: Buffer): void => {
  for (let offset = 0; offset < data.length; ) offset += writeSync(fd, data, offset);
};

export class Journal<T> {
  private fd: number;
  private size: number;

  constructor(private readonly file: string) {
    this.fd = openSync(file, 'a+', 0o600);
    this.size = fstatSync(this.fd).size;
  }

  get bytes(): number {
    return this.size;
  }

  /** One write per change: only the process can die, so the kernel keeps what was written. */
  append(records: readonly T[]): void {
    const line = Buffer.from(`${JSON.stringify(records)}\n`);
    writeFully(this.fd, line);
    this.size += line.length;
  }

  *read(): Generator<T> {
    const chunk = Buffer.alloc(READ_CHUNK_BYTES);
    let rest = Buffer.alloc(0);
    for (let position = 0; ; ) {
      const count = readSync(this.fd, chunk, 0, chunk.length, position);
      if (count === 0) return;
      position += count;
      const data = Buffer.concat([rest, chunk.subarray(0, count)]);
      let start = 0;
      for (let end = data.indexOf(10, start); end >= 0; end = data.indexOf(10, start)) {
        yield* JSON.parse(data.toString('utf8', start, end)) as T[];
        start = end + 1;
      }
      rest = Buffer.from(data.subarray(start));
    }
  }

  /** Replaces the file by the given records; the old one stays until the new one is complete. */
  rewrite(records: Iterable<T>): void {
    const temporary = `${this.file}.new`;
    const fd = openSync(temporary, 'w', 0o600);
    let lines: string[] = [];
    let pending = 0;
    const flush = () => {
      writeFully(fd, Buffer.from(lines.join('')));
      lines = [];
      pending = 0;
    };
    for (const record of records) {
      const line = `${JSON.stringify([record])}\n`;
      lines.push(line);
      pending += line.length;
      if (pending > WRITE_CHUNK_BYTES) flush();
    }
    flush();
    closeSync(fd);
    renameSync(temporary, this.file);
    closeSync(this.fd);
    this.fd = openSync(this.file, 'a+', 0o600);
    this.size = fstatSync(this.fd).size;
  }

  close(): void {
    closeSync(this.fd);
  }
}
