/** One client on the WebSocket: handshake, then stanzas in and out, strictly in order. */
import { decodeBinaryNode, encodeBinaryNode, type BinaryNode } from 'baileys';
import type { WebSocket } from 'ws';
import type { ServerKeys } from '../crypto/serverKeys.ts';
import { messageOf } from '../errors.ts';
import type { Account, Device } from '../state/model.ts';
import { FrameReader, frameOf, NoiseServer, type HandshakeResult } from './noise.ts';
import { node } from './nodes.ts';

export interface ConnectionHandler {
  /** The client said who it is. */
  onHello(connection: Connection, hello: HandshakeResult): void | Promise<void>;
  onStanza(connection: Connection, stanza: BinaryNode): void | Promise<void>;
  onClose(connection: Connection, reason: string): void;
}

export class Connection {
  readonly openedAt = Date.now();
  account: Account | undefined;
  device: Device | undefined;
  /** Set when the client asked for its messages; before that they stay in the queue. */
  active = false;
  closed = false;
  /** Phones whose presence this client wants to hear of. */
  readonly subscriptions = new Set<string>();
  private noise: NoiseServer | undefined;
  private readonly frames = new FrameReader();
  private stage: 'hello' | 'finish' | 'open' = 'hello';
  private chain: Promise<void> = Promise.resolve();

  constructor(
    private readonly ws: WebSocket,
    readonly remoteAddress: string,
    private readonly keys: ServerKeys,
    private readonly handler: ConnectionHandler
  ) {
    ws.on('message', (data: Buffer) => this.receive(data));
    ws.on('close', () => this.ended('closed'));
    ws.on('error', error => this.ended(error.message));
  }

  send(stanza: BinaryNode): void {
    this.sendEncoded(encodeBinaryNode(stanza));
  }

  sendEncoded(stanza: Uint8Array): void {
    if (this.closed || !this.noise) return;
    this.ws.send(frameOf(this.noise.encrypt(stanza)));
  }

  /** Says why, then closes. */
  closeWith(stanza: BinaryNode): void {
    this.send(stanza);
    this.close();
  }

  streamError(code: number | undefined, content?: BinaryNode[]): void {
    this.closeWith(node('stream:error', { code: code === undefined ? undefined : String(code) }, content));
  }

  close(): void {
    this.ended('closed by server');
    this.ws.close();
    // A client that never answers the close frame would keep the socket for 30 s.
    setTimeout(() => this.ws.terminate(), 500).unref();
  }

  /** As if the network was cut. */
  terminate(): void {
    this.ws.terminate();
  }

  /** A network that swallows everything: nothing is read, nothing goes out, nothing is lost. */
  stall(on: boolean): void {
    const socket = (this.ws as unknown as { _socket?: { cork(): void; uncork(): void } })._socket;
    if (on) {
      this.ws.pause();
      socket?.cork();
    } else {
      socket?.uncork();
      this.ws.resume();
    }
  }

  private receive(data: Buffer): void {
    try {
      for (const frame of this.frames.push(data)) this.chain = this.chain.then(() => this.handleFrame(frame));
    } catch (error) {
      this.fail(error);
    }
  }

  private async handleFrame(frame: Buffer): Promise<void> {
    if (this.closed) return;
    try {
      if (this.stage === 'hello') {
        this.noise = new NoiseServer(this.keys);
        this.ws.send(frameOf(this.noise.serverHello(frame)));
        this.stage = 'finish';
      } else if (this.stage === 'finish' && this.noise) {
        const hello = this.noise.finish(frame);
        this.stage = 'open';
        await this.handler.onHello(this, hello);
      } else if (this.noise) {
        await this.handler.onStanza(this, await decodeBinaryNode(this.noise.decrypt(frame)));
      }
    } catch (error) {
      this.fail(error);
    }
  }

  private fail(error: unknown): void {
    this.ended(messageOf(error));
    this.ws.terminate();
  }

  private ended(reason: string): void {
    if (this.closed) return;
    this.closed = true;
    this.active = false;
    this.handler.onClose(this, reason);
  }
}
