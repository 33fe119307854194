/** Takes a message from a device: on disk first, then acknowledged, then passed on to every device it is for. */
import { getBinaryNodeChild, getBinaryNodeChildren, type BinaryNode } from 'baileys';
import { shortPhone } from '../log.ts';
import { inboxKey, type Account } from '../state/model.ts';
import type { Address } from '../state/store.ts';
import type { World } from '../world.ts';
import type { Connection } from './connection.ts';
import type { Delivery, Shipment } from './post.ts';
import { node, unixNow } from './nodes.ts';

export interface Envelope {
  from: Account;
  fromDevice: number;
  id: string;
  /** Jid of the chat, as the sender addressed it. */
  to: string;
  type: string;
  category?: string | undefined;
  edit?: string | undefined;
}

/** The stanza as the receiving device gets it. */
export const messageStanza = (envelope: Envelope, receiver: Address, content: BinaryNode[]): BinaryNode => {
  const { from, fromDevice, id, to, type, category, edit } = envelope;
  const byLid = to.endsWith('@lid');
  const own = receiver.account === from;
  return node(
    'message',
    {
      from: from.jid(fromDevice, byLid),
      id,
      t: unixNow(),
      type,
      notify: from.name,
      [byLid ? 'sender_pn' : 'sender_lid']: from.jid(0, !byLid),
      // Tells another device of the same account which chat this copy belongs to.
      recipient: own && category !== 'peer' ? to : undefined,
      category,
      edit
    },
    content
  );
};

interface Copy {
  jid: string;
  enc: BinaryNode[];
}

/** One copy per device under <participants>; a bare <enc> (peer message, answer to a retry) is for `to` itself. */
const copiesOf = (stanza: BinaryNode): Copy[] => {
  const participants = getBinaryNodeChild(stanza, 'participants');
  const copies = participants
    ? getBinaryNodeChildren(participants, 'to').map(to => ({ jid: to.attrs.jid ?? '', enc: getBinaryNodeChildren(to, 'enc') }))
    : [];
  const direct = getBinaryNodeChildren(stanza, 'enc');
  if (direct.length) copies.push({ jid: stanza.attrs.to ?? '', enc: direct });
  return copies;
};

const deliveriesOf = (world: World, envelope: Envelope, stanza: BinaryNode): Delivery[] => {
  const shared = ['device-identity', 'meta'].flatMap(tag => getBinaryNodeChildren(stanza, tag));
  return copiesOf(stanza).flatMap(({ jid, enc }) => {
    const receiver = world.store.resolve(jid);
    if (!receiver?.account.queueOf(receiver.device)) return [];
    if (receiver.account === envelope.from && receiver.device === envelope.fromDevice) return [];
    return [{ account: receiver.account, device: receiver.device, stanza: messageStanza(envelope, receiver, [...enc, ...shared]) }];
  });
};

/** Counted by sender and id; the answer to a retry request is not a second copy. */
export const acceptedRecord = (world: World, envelope: Envelope) => {
  const isRetry = (world.store.model.accepted.get(inboxKey(envelope.from.phone, envelope.id))?.owed ?? 0) > 0;
  const to = world.store.resolve(envelope.to)?.account.phone ?? envelope.to;
  return { k: 'accepted', from: envelope.from.phone, id: envelope.id, to, copies: isRetry ? 0 : 1, retries: isRetry ? 1 : 0 } as const;
};

const acknowledge = (world: World, connection: Connection, stanza: BinaryNode, error?: number): void => {
  const phone = connection.account?.phone;
  const ack = node('ack', {
    class: 'message',
    id: stanza.attrs.id,
    from: stanza.attrs.to,
    t: unixNow(),
    error: error === undefined ? undefined : String(error)
  });
  if (error === undefined && world.faults.noAcks.take(phone) !== undefined) return;
  const delayMs = world.faults.ackDelayMs.take(phone);
  if (delayMs === undefined) connection.send(ack);
  else setTimeout(() => connection.send(ack), delayMs).unref();
};

const accept = (world: World, envelope: Envelope, stanza: BinaryNode): Shipment => {
  const shipment = world.post.prepare(deliveriesOf(world, envelope, stanza));
  // Messages between the devices of one account (peer) are plumbing, not traffic.
  const counted = envelope.category === 'peer' ? [] : [acceptedRecord(world, envelope)];
  world.store.commit([...counted, ...shipment.records]);
  return shipment;
};

export const onMessage = (world: World, connection: Connection, stanza: BinaryNode): void => {
  const { account, device } = connection;
  const { id, to } = stanza.attrs;
  if (!account || !device || !id || !to) return;
  if (world.faults.loseSends.take(account.phone) !== undefined) {
    world.stats.lostSends += 1;
    return;
  }
  const nack = world.faults.nackSends.take(account.phone);
  if (nack !== undefined) {
    world.stats.nacks += 1;
    world.log.info('nack', { phone: shortPhone(account.phone), id, code: nack });
    acknowledge(world, connection, stanza, nack);
    return;
  }
  const { category, edit, type = 'text', recipient } = stanza.attrs;
  // An answer to a retry of one's own device names the chat in `recipient`.
  const envelope: Envelope = { from: account, fromDevice: device.id, id, to: recipient ?? to, type, category, edit };
  const shipment = accept(world, envelope, stanza);
  acknowledge(world, connection, stanza);
  shipment.send();
};
