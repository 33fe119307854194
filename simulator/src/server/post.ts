/** The post office: a stanza for a device is queued on disk first, then sent if the device is there. */
import { decodeBinaryNode, encodeBinaryNode, type BinaryNode } from 'baileys';
import type { Account } from '../state/model.ts';
import type { StateRecord } from '../state/records.ts';
import type { Store } from '../state/store.ts';
import type { Connection } from './connection.ts';
import type { Hub } from './hub.ts';
import { node, SERVER_JID } from './nodes.ts';

export interface Delivery {
  account: Account;
  device: number;
  stanza: BinaryNode;
}

interface Parcel extends Delivery {
  encoded: Buffer;
}

export interface Shipment {
  /** To be committed together with whatever caused the deliveries. */
  records: StateRecord[];
  /** To be called after the commit. */
  send(): void;
}

export class Post {
  /** Set by the phones: device 0 lives in this process. */
  wakePhone: (account: Account) => void = () => undefined;

  constructor(
    private readonly store: Store,
    private readonly hub: Hub
  ) {}

  prepare(deliveries: Delivery[]): Shipment {
    const records: StateRecord[] = [];
    const parcels: Parcel[] = [];
    for (const delivery of deliveries) {
      const { account, device, stanza } = delivery;
      const queue = account.queueOf(device);
      if (!queue) continue;
      const encoded = encodeBinaryNode(stanza);
      const key = `${stanza.tag}:${stanza.attrs.id ?? ''}`;
      records.push({ k: 'queue', phone: account.phone, device, n: queue.reserve(), key, stanza: encoded.toString('base64') });
      parcels.push({ ...delivery, encoded });
    }
    return { records, send: () => parcels.forEach(parcel => this.send(parcel)) };
  }

  deliver(deliveries: Delivery[]): void {
    const shipment = this.prepare(deliveries);
    this.store.commit(shipment.records);
    shipment.send();
  }

  private send({ account, device, encoded }: Parcel): void {
    if (device === 0) {
      this.wakePhone(account);
      return;
    }
    const connection = this.hub.of(account.phone, device);
    if (connection?.active) connection.sendEncoded(encoded);
  }

  /** Everything that waited, marked as offline, and then the count that tells the client it is complete. */
  async deliverBacklog(connection: Connection): Promise<void> {
    const queue = connection.device?.queue;
    const items = queue?.all() ?? [];
    const stanzas = await Promise.all(items.map(item => decodeBinaryNode(item.stanza)));
    stanzas.forEach((stanza, index) => connection.send({ ...stanza, attrs: { ...stanza.attrs, offline: String(index) } }));
    connection.send(node('ib', { from: SERVER_JID }, [node('offline', { count: String(items.length) })]));
    // What came in while decoding was neither in the list nor sent live.
    const last = items.at(-1)?.n ?? 0;
    for (const item of queue?.all() ?? []) if (item.n > last) connection.sendEncoded(item.stanza);
    connection.active = true;
  }

  /** The device has it: an unwritten acknowledgement only costs a second delivery, so it may wait. */
  acknowledge(account: Account, device: number, tag: string, ids: string[]): void {
    const queue = account.queueOf(device);
    if (!queue) return;
    for (const id of ids) {
      const n = queue.oldestOf(`${tag}:${id}`);
      if (n !== undefined) this.store.commitLazily([{ k: 'unqueue', phone: account.phone, device, n }]);
    }
  }
}
