/** The WebSocket port: plain and TLS on one port, refusing or swallowing connections when told to. */
import { createServer as createHttpServer, type IncomingMessage, type Server as HttpServer } from 'node:http';
import { createServer as createHttpsServer, type Server as HttpsServer } from 'node:https';
import { createServer, type Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { WebSocketServer, type WebSocket } from 'ws';
import type { KeyAndCertificate } from '../crypto/certificates.ts';
import type { Faults } from '../faults.ts';

const TLS_HANDSHAKE_BYTE = 0x16;

export class Listener {
  readonly server: Server;
  private readonly http: HttpServer;
  private readonly https: HttpsServer;
  private readonly webSockets = new WebSocketServer({ noServer: true, perMessageDeflate: false, maxPayload: 32 * 1024 * 1024 });
  private readonly sockets = new Set<Socket>();
  /** Accepted while the black hole was on; served when it ends. */
  private readonly swallowed = new Set<Socket>();

  constructor(
    certificate: KeyAndCertificate,
    private readonly faults: Faults,
    onClient: (ws: WebSocket, remoteAddress: string) => void
  ) {
    const upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      const status = this.faults.upgradeStatus;
      if (status !== null) {
        socket.end(`HTTP/1.1 ${status} Simulated\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
        return;
      }
      this.webSockets.handleUpgrade(request, socket, head, ws => onClient(ws, request.socket.remoteAddress ?? ''));
    };
    this.http = createHttpServer((_, response) => response.writeHead(426).end());
    this.https = createHttpsServer(certificate, (_, response) => response.writeHead(426).end());
    this.http.on('upgrade', upgrade);
    this.https.on('upgrade', upgrade);
    this.https.on('tlsClientError', () => undefined);
    this.server = createServer({ noDelay: true }, socket => this.accept(socket));
  }

  private accept(socket: Socket): void {
    this.sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.sockets.delete(socket);
      this.swallowed.delete(socket);
    });
    if (this.faults.blackHole) this.swallowed.add(socket);
    else this.serve(socket);
  }

  /** The first byte tells TLS from plain HTTP. */
  private serve(socket: Socket): void {
    const look = () => {
      const first = socket.read(1) as Buffer | null;
      if (first === null) {
        socket.once('readable', look);
        return;
      }
      socket.unshift(first);
      (first[0] === TLS_HANDSHAKE_BYTE ? this.https : this.http).emit('connection', socket);
    };
    look();
  }

  blackHoleEnded(): void {
    for (const socket of this.swallowed) this.serve(socket);
    this.swallowed.clear();
  }

  close(): void {
    this.server.close();
    for (const socket of this.sockets) socket.destroy();
  }
}
