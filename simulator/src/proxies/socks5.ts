/** A small SOCKS5 server: user/password, CONNECT, its own outgoing address, and faults on demand. */
import { connect, createServer, isIP, type Server, type Socket } from 'node:net';
import type { ProxyFaultMode } from '../faults.ts';
import { SocksReader, type AddressType } from './socksReader.ts';

const VERSION = 5;
const AUTH_VERSION = 1;
const METHOD_NONE = 0;
const METHOD_PASSWORD = 2;
const METHOD_REFUSED = 0xff;
const CONNECT = 1;
const REPLY = { ok: 0, failure: 1, notAllowed: 2, hostUnreachable: 4, refused: 5, badCommand: 7 } as const;
const CONNECT_TIMEOUT_MS = 10_000;

export interface AskedHost {
  host: string;
  port: number;
  atyp: AddressType;
}

export interface Socks5Options {
  user?: string | undefined;
  password?: string | undefined;
  /** Connections leave from here, so that the far end can tell the proxies apart. */
  localAddress?: string | undefined;
  onRequest?(asked: AskedHost): void;
  onConnection?(): void;
}

export class Socks5Server {
  readonly server: Server;
  fault: ProxyFaultMode | null = null;
  private readonly sockets = new Set<Socket>();

  constructor(private readonly options: Socks5Options) {
    this.server = createServer({ noDelay: true }, socket => this.accept(socket));
  }

  private accept(socket: Socket): void {
    this.options.onConnection?.();
    this.track(socket);
    // Closed after the greeting was read: with unread data it would be a reset, at random.
    if (this.fault === 'drop') {
      socket.once('data', () => socket.destroy());
      return;
    }
    // A hanging proxy takes what is sent and never answers.
    if (this.fault === 'hang') {
      socket.resume();
      return;
    }
    this.negotiate(socket, new SocksReader(socket)).catch(() => socket.destroy());
  }

  private track(socket: Socket): void {
    this.sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => this.sockets.delete(socket));
  }

  private async negotiate(socket: Socket, reader: SocksReader): Promise<void> {
    const [version, methodCount] = await reader.bytes(2);
    if (version !== VERSION) throw new Error('not SOCKS5');
    const methods = await reader.bytes(methodCount ?? 0);
    const method = this.options.user === undefined ? METHOD_NONE : METHOD_PASSWORD;
    if (!methods.includes(method)) {
      socket.end(Buffer.from([VERSION, METHOD_REFUSED]));
      return;
    }
    socket.write(Buffer.from([VERSION, method]));
    if (method === METHOD_PASSWORD && !(await this.authenticate(socket, reader))) return;
    const { command, ...asked } = await reader.request();
    this.options.onRequest?.(asked);
    if (command !== CONNECT) this.refuse(socket, REPLY.badCommand);
    else if (this.fault === 'refuse') this.refuse(socket, REPLY.notAllowed);
    else if (this.fault === 'target-refused') this.refuse(socket, REPLY.refused);
    else this.connect(socket, reader, asked);
  }

  private async authenticate(socket: Socket, reader: SocksReader): Promise<boolean> {
    const { user, password } = await reader.credentials();
    const right = this.fault !== 'auth' && user === this.options.user && password === (this.options.password ?? '');
    if (right) socket.write(Buffer.from([AUTH_VERSION, 0]));
    else socket.end(Buffer.from([AUTH_VERSION, 1]));
    return right;
  }

  private refuse(socket: Socket, code: number): void {
    socket.end(Buffer.from([VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]));
  }

  private connect(socket: Socket, reader: SocksReader, { host, port }: AskedHost): void {
    const { localAddress } = this.options;
    const target = connect({
      host,
      port,
      noDelay: true,
      // The outgoing address is IPv4: a name that also has an IPv6 address must not pick that one.
      ...(localAddress && isIP(host) !== 6 ? { localAddress, family: 4 } : {})
    });
    this.track(target);
    target.setTimeout(CONNECT_TIMEOUT_MS, () => target.destroy(new Error('timeout')));
    const failed = (error: Error) =>
      this.refuse(socket, (error as NodeJS.ErrnoException).code === 'ECONNREFUSED' ? REPLY.refused : REPLY.hostUnreachable);
    target.once('error', failed);
    target.once('connect', () => {
      target.off('error', failed);
      target.setTimeout(0);
      socket.write(Buffer.from([VERSION, REPLY.ok, 0, 1, 127, 0, 0, 1, 0, 0]));
      const early = reader.release();
      if (early.length) target.write(early);
      socket.pipe(target);
      target.pipe(socket);
    });
    socket.once('close', () => target.destroy());
    target.once('close', () => socket.destroy());
  }

  /** Stops listening and cuts every connection. */
  async close(): Promise<void> {
    // first the door: whoever is cut off knocks again at once, and must find it closed
    const closed = this.server.listening ? new Promise(resolve => this.server.close(resolve)) : undefined;
    for (const socket of this.sockets) socket.destroy();
    await closed;
  }
}
