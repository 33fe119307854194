/** Receipts: delivered, read, played and retry requests find their way back to the sender. */
import { getBinaryNodeChildren, type BinaryNode } from 'baileys';
import type { Account } from '../state/model.ts';
import type { Address } from '../state/store.ts';
import type { World } from '../world.ts';
import type { Connection } from './connection.ts';
import type { Delivery } from './post.ts';
import { children, node, unixNow } from './nodes.ts';

/** Between the devices of one account; the server only takes note of them. */
const INTERNAL_TYPES = new Set(['sender', 'peer_msg', 'hist_sync', 'read-self', 'played-self', 'server-error']);

export interface Receipt {
  from: Account;
  fromDevice: number;
  lid: boolean;
  to: Address;
  id: string;
  type?: string | undefined;
  attributes?: Record<string, string | undefined>;
  content?: BinaryNode[] | undefined;
}

export class Receipts {
  constructor(private readonly world: World) {}

  /** Where a receipt goes: a retry only to the device that sent the message, all others to every device. */
  deliveries(receipt: Receipt): Delivery[] {
    const { from, fromDevice, lid, to, id, type, attributes, content } = receipt;
    this.world.stats.countReceipt(type);
    // Written together with the receipt itself, which is committed next.
    if (type === 'retry') this.world.store.commitLazily([{ k: 'retryAsked', from: to.account.phone, id, count: 1 }]);
    const stanza = node('receipt', { from: from.jid(fromDevice, lid), id, t: unixNow(), type, ...attributes }, content);
    const devices = type === 'retry' ? [to.device] : [0, ...to.account.devices.keys()];
    return devices
      .filter(device => !(to.account === from && device === fromDevice))
      .map(device => ({ account: to.account, device, stanza }));
  }

  onReceipt(connection: Connection, stanza: BinaryNode): void {
    const { account, device } = connection;
    const { id, to, type, recipient, participant } = stanza.attrs;
    if (!account || !device || !id) return;
    const list = children(stanza).find(child => child.tag === 'list');
    const ids = [id, ...(list ? getBinaryNodeChildren(list, 'item').map(item => item.attrs.id ?? '') : [])];
    // Having a receipt for it, the server need not keep the message; a retry request is followed by an <ack>.
    if (type !== 'retry' && type !== 'read' && type !== 'played') this.world.post.acknowledge(account, device.id, 'message', ids);
    const address = this.world.store.resolve(to);
    if (type && INTERNAL_TYPES.has(type)) this.world.stats.countReceipt(type);
    else if (address) {
      const content = Array.isArray(stanza.content) ? stanza.content : undefined;
      const attributes = { recipient, participant };
      const receipt = { from: account, fromDevice: device.id, lid: address.lid, to: address, id, type, attributes, content };
      this.world.post.deliver(this.deliveries(receipt));
    }
    connection.send(node('ack', { class: 'receipt', id, from: to, type }));
  }
}
