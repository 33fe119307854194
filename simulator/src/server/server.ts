/** The WhatsApp server: accepts clients and hands each stanza to whoever deals with its kind. */
import type { BinaryNode } from 'baileys';
import type { KeyAndCertificate } from '../crypto/certificates.ts';
import type { ServerKeys } from '../crypto/serverKeys.ts';
import { messageOf } from '../errors.ts';
import type { World } from '../world.ts';
import { Connection } from './connection.ts';
import { onIq } from './iq.ts';
import { Listener } from './listener.ts';
import { onHello } from './login.ts';
import { onMessage } from './messages.ts';
import type { Presence } from './presence.ts';

export class Server {
  readonly listener: Listener;

  constructor(
    private readonly world: World,
    private readonly presence: Presence,
    keys: ServerKeys,
    certificate: KeyAndCertificate
  ) {
    this.listener = new Listener(certificate, world.faults, (ws, remoteAddress) => {
      world.stats.connections += 1;
      world.hub.all.add(
        new Connection(ws, remoteAddress, keys, {
          onHello: (connection, hello) => onHello(world, connection, hello),
          onStanza: (connection, stanza) => this.onStanza(connection, stanza),
          onClose: (connection, reason) => this.onClose(connection, reason)
        })
      );
    });
  }

  private async onStanza(connection: Connection, stanza: BinaryNode): Promise<void> {
    try {
      await this.dispatch(connection, stanza);
    } catch (error) {
      // One stanza that is not understood must not cost the client its connection.
      this.world.log.warn('stanza_failed', { tag: stanza.tag, xmlns: stanza.attrs.xmlns, error: messageOf(error) });
    }
  }

  private dispatch(connection: Connection, stanza: BinaryNode): void | Promise<void> {
    switch (stanza.tag) {
      case 'iq':
        return onIq(this.world, connection, stanza);
      case 'message':
        return onMessage(this.world, connection, stanza);
      case 'receipt':
        return this.world.receipts.onReceipt(connection, stanza);
      case 'ack':
        return this.onAck(connection, stanza);
      case 'presence':
        return this.presence.onPresence(connection, stanza);
      case 'chatstate':
        return this.presence.onChatState(connection, stanza);
      default:
        return undefined;
    }
  }

  private onAck(connection: Connection, stanza: BinaryNode): void {
    const { account, device } = connection;
    const { class: tag, id } = stanza.attrs;
    if (account && device && tag && id) this.world.post.acknowledge(account, device.id, tag, [id]);
  }

  private onClose(connection: Connection, reason: string): void {
    this.world.hub.detach(connection);
    this.world.pairing.forget(connection);
    this.world.pairCodes.forget(connection);
    this.world.deviceLists.forget(connection);
    this.presence.forget(connection);
    if (connection.device) this.world.log.info('disconnected', { device: connection.device.id, reason });
  }

  setBlackHole(on: boolean): void {
    this.world.faults.blackHole = on;
    for (const connection of this.world.hub.all) connection.stall(on);
    if (!on) this.listener.blackHoleEnded();
  }

  close(): void {
    this.listener.close();
  }
}
