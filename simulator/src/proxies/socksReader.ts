/** Reads the SOCKS5 messages of a client from its socket, field by field. */
import type { Socket } from 'node:net';

const ATYP_IPV4 = 1;
const ATYP_DOMAIN = 3;
const ATYP_IPV6 = 4;

export type AddressType = 'ipv4' | 'ipv6' | 'domain';

export interface SocksRequest {
  command: number;
  host: string;
  port: number;
  atyp: AddressType;
}

export class SocksReader {
  private buffer: Buffer = Buffer.alloc(0);
  private wanted: (() => void) | undefined;
  private ended = false;

  constructor(private readonly socket: Socket) {
    socket.on('data', this.onData);
    socket.once('close', this.onEnd);
    socket.once('end', this.onEnd);
  }

  private readonly onData = (chunk: Buffer): void => {
    this.buffer = Buffer.concat([this.buffer, chunk]);
    this.wanted?.();
  };

  private readonly onEnd = (): void => {
    this.ended = true;
    this.wanted?.();
  };

  async bytes(count: number): Promise<Buffer> {
    while (this.buffer.length < count) {
      if (this.ended) throw new Error('client left');
      await new Promise<void>(resolve => (this.wanted = resolve));
    }
    const taken = this.buffer.subarray(0, count);
    this.buffer = this.buffer.subarray(count);
    return taken;
  }

  private async byte(): Promise<number> {
    return (await this.bytes(1)).readUInt8();
  }

  private async text(): Promise<string> {
    return (await this.bytes(await this.byte())).toString('utf8');
  }

  /** RFC 1929. */
  async credentials(): Promise<{ user: string; password: string }> {
    await this.byte();
    const user = await this.text();
    return { user, password: await this.text() };
  }

  async request(): Promise<SocksRequest> {
    const header = await this.bytes(4);
    const command = header.readUInt8(1);
    const { host, atyp } = await this.address(header.readUInt8(3));
    return { command, host, atyp, port: (await this.bytes(2)).readUInt16BE() };
  }

  private async address(type: number): Promise<{ host: string; atyp: AddressType }> {
    if (type === ATYP_DOMAIN) return { host: await this.text(), atyp: 'domain' };
    if (type === ATYP_IPV4) return { host: [...(await this.bytes(4))].join('.'), atyp: 'ipv4' };
    if (type !== ATYP_IPV6) throw new Error('unknown address type');
    const groups = (await this.bytes(16)).toString('hex').match(/.{4}/g) ?? [];
    return { host: groups.join(':'), atyp: 'ipv6' };
  }

  /** Hands the socket over: what was read too far comes back. */
  release(): Buffer {
    this.socket.off('data', this.onData);
    this.socket.off('close', this.onEnd);
    this.socket.off('end', this.onEnd);
    return this.buffer;
  }
}
