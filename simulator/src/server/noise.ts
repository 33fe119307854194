/** The server's side of the Noise XX handshake and the frames after it. */
import { aesDecryptGCM, aesEncryptGCM, Curve, hkdf, NOISE_MODE, NOISE_WA_HEADER, proto, sha256, type KeyPair } from 'baileys';
import type { ServerKeys } from '../crypto/serverKeys.ts';

const EMPTY = Buffer.alloc(0);
/** A frame longer than this is not from a WhatsApp client. */
const MAX_FRAME_BYTES = 16 * 1024 * 1024;

const ivOf = (counter: number): Buffer => {
  const iv = Buffer.alloc(12);
  iv.writeUInt32BE(counter, 8);
  return iv;
};

export interface HandshakeResult {
  clientStaticKey: Buffer;
  payload: proto.ClientPayload;
}

export class NoiseServer {
  private hash: Buffer = Buffer.from(NOISE_MODE);
  private salt: Buffer = this.hash;
  private key: Buffer = this.hash;
  private counter = 0;
  private readonly ephemeral: KeyPair = Curve.generateKeyPair();
  private transport: { read: Buffer; write: Buffer; reads: number; writes: number } | undefined;

  constructor(private readonly keys: ServerKeys) {
    this.authenticate(NOISE_WA_HEADER);
  }

  /** Answer to the client's first frame. */
  serverHello(frame: Buffer): Buffer {
    const { clientHello } = proto.HandshakeMessage.decode(frame);
    if (!clientHello?.ephemeral) throw new Error('handshake: client hello is missing');
    const clientEphemeral = Buffer.from(clientHello.ephemeral);
    this.authenticate(clientEphemeral);
    this.authenticate(this.ephemeral.public);
    this.mix(Curve.sharedKey(this.ephemeral.private, clientEphemeral));
    const encryptedStatic = this.encryptHandshake(this.keys.staticKey.public);
    this.mix(Curve.sharedKey(this.keys.staticKey.private, clientEphemeral));
    const payload = this.encryptHandshake(this.keys.certChain);
    const serverHello = { ephemeral: this.ephemeral.public, static: encryptedStatic, payload };
    return Buffer.from(proto.HandshakeMessage.encode({ serverHello }).finish());
  }

  /** The client's second frame: who it is; frames are encrypted from here on. */
  finish(frame: Buffer): HandshakeResult {
    const { clientFinish } = proto.HandshakeMessage.decode(frame);
    if (!clientFinish?.static || !clientFinish.payload) throw new Error('handshake: client finish is missing');
    const clientStaticKey = this.decryptHandshake(Buffer.from(clientFinish.static));
    this.mix(Curve.sharedKey(this.ephemeral.private, clientStaticKey));
    const payload = proto.ClientPayload.decode(this.decryptHandshake(Buffer.from(clientFinish.payload)));
    const [read, write] = this.derive(EMPTY);
    this.transport = { read, write, reads: 0, writes: 0 };
    return { clientStaticKey, payload };
  }

  encrypt(data: Uint8Array): Buffer {
    if (!this.transport) throw new Error('handshake is not finished');
    return aesEncryptGCM(data, this.transport.write, ivOf(this.transport.writes++), EMPTY);
  }

  decrypt(data: Uint8Array): Buffer {
    if (!this.transport) throw new Error('handshake is not finished');
    return aesDecryptGCM(data, this.transport.read, ivOf(this.transport.reads++), EMPTY);
  }

  private authenticate(data: Uint8Array): void {
    this.hash = sha256(Buffer.concat([this.hash, data]));
  }

  private derive(data: Buffer): [Buffer, Buffer] {
    const out = Buffer.from(hkdf(data, 64, { salt: this.salt, info: '' }));
    return [out.subarray(0, 32), out.subarray(32)];
  }

  private mix(secret: Buffer): void {
    [this.salt, this.key] = this.derive(secret);
    this.counter = 0;
  }

  private encryptHandshake(data: Uint8Array): Buffer {
    const result = aesEncryptGCM(data, this.key, ivOf(this.counter++), this.hash);
    this.authenticate(result);
    return result;
  }

  private decryptHandshake(data: Buffer): Buffer {
    const result = aesDecryptGCM(data, this.key, ivOf(this.counter++), this.hash);
    this.authenticate(data);
    return result;
  }
}

/** Cuts the byte stream into frames: a 3-byte length each, after the `WA` intro of the first one. */
export class FrameReader {
  private rest: Buffer = EMPTY;
  private introSeen = false;

  push(data: Buffer): Buffer[] {
    this.rest = this.rest.length ? Buffer.concat([this.rest, data]) : data;
    if (!this.introSeen && !this.skipIntro()) return [];
    const frames: Buffer[] = [];
    while (this.rest.length >= 3) {
      const size = this.rest.readUIntBE(0, 3);
      if (size > MAX_FRAME_BYTES) throw new Error('frame too large');
      if (this.rest.length < size + 3) break;
      frames.push(this.rest.subarray(3, size + 3));
      this.rest = this.rest.subarray(size + 3);
    }
    return frames;
  }

  private skipIntro(): boolean {
    const header = NOISE_WA_HEADER.length;
    if (this.rest.length < header) return false;
    if (!this.rest.subarray(0, header).equals(NOISE_WA_HEADER)) throw new Error('not a WhatsApp client: intro is wrong');
    this.rest = this.rest.subarray(header);
    this.introSeen = true;
    return true;
  }
}

export const frameOf = (data: Buffer): Buffer => {
  const frame = Buffer.allocUnsafe(3 + data.length);
  frame.writeUIntBE(data.length, 0, 3);
  data.copy(frame, 3);
  return frame;
};
