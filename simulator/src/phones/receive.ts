/** A phone opens what was delivered to it: decrypt, keep, and answer with a receipt, all in one change. */
import { getBinaryNodeChild, proto, type BinaryNode } from 'baileys';
import { messageOf } from '../errors.ts';
import { shortPhone } from '../log.ts';
import { bytesOf, node, unixNow } from '../server/nodes.ts';
import type { Delivery } from '../server/post.ts';
import { bundleNodes } from '../server/preKeys.ts';
import { inboxKey, type Account } from '../state/model.ts';
import type { InboxEntry, SentStatus, StateRecord } from '../state/records.ts';
import type { Address } from '../state/store.ts';
import type { World } from '../world.ts';
import { showMessage } from './content.ts';
import { phoneBundle } from './keys.ts';
import { resend } from './send.ts';
import { SignalTransaction } from './signal.ts';

/** As real clients do: after this many attempts a message is given up. */
const MAX_RETRIES = 5;
const STATUS_RANK: Record<SentStatus, number> = { sent: 0, delivered: 1, read: 2, played: 3 };

export const receive = async (world: World, account: Account, n: number, stanza: BinaryNode): Promise<void> => {
  if (stanza.tag === 'message') await receiveMessage(world, account, n, stanza);
  else if (stanza.tag === 'receipt') await receiveReceipt(world, account, stanza);
};

const finish = (world: World, account: Account, n: number, records: StateRecord[], deliveries: Delivery[]): void => {
  const shipment = world.post.prepare(deliveries);
  world.store.commit([...records, ...shipment.records, { k: 'unqueue', phone: account.phone, device: 0, n }]);
  shipment.send();
};

const receiveMessage = async (world: World, account: Account, n: number, stanza: BinaryNode): Promise<void> => {
  const sender = world.store.resolve(stanza.attrs.from);
  const enc = getBinaryNodeChild(stanza, 'enc');
  const ciphertext = bytesOf(enc);
  const id = stanza.attrs.id ?? '';
  if (!sender || !enc || !ciphertext) return;
  const signal = new SignalTransaction(account);
  let message: proto.Message;
  try {
    message = await signal.decrypt(sender.account.phone, sender.device, enc.attrs.type ?? '', ciphertext);
  } catch (error) {
    world.stats.undecryptable += 1;
    world.log.warn('undecryptable', { phone: shortPhone(account.phone), id, error: messageOf(error) });
    askAgain(world, account, n, sender, stanza, messageOf(error));
    return;
  }
  const entry = await entryOf(world, account, sender, stanza, message);
  const records = signal.records();
  if (entry && isNew(account, entry)) records.push({ k: 'inbox', phone: account.phone, entry });
  if (entry && account.autoReceipt === 'read') records.push({ k: 'readByPhone', phone: account.phone, key: inboxKey(entry.from, id) });
  finish(world, account, n, records, entry && !entry.fromMe ? receiptsFor(world, account, sender, id) : []);
};

/** The first readable copy is shown; a later one with the same id is only counted. */
const isNew = (account: Account, entry: InboxEntry): boolean => {
  const known = account.inbox.get(inboxKey(entry.from, entry.id));
  return !known || known.kind === 'undecrypted';
};

const entryOf = async (
  world: World,
  account: Account,
  sender: Address,
  stanza: BinaryNode,
  received: proto.Message
): Promise<InboxEntry | undefined> => {
  const own = sender.account === account;
  const copy = received.deviceSentMessage;
  // Of what its own devices send, a phone's inbox only shows the chat with oneself.
  if (own && world.store.resolve(copy?.destinationJid ?? '')?.account !== account) return undefined;
  const message = copy?.message ?? received;
  return {
    id: stanza.attrs.id ?? '',
    from: sender.account.phone,
    fromDevice: sender.device,
    at: Date.now(),
    ...(sender.lid ? { lid: true } : {}),
    ...(own ? { fromMe: true } : {}),
    ...(await showMessage(message, world.blobs))
  };
};

const receiptsFor = (world: World, account: Account, sender: Address, id: string): Delivery[] => {
  const types = { delivered: [undefined], read: [undefined, 'read'], none: [] }[account.autoReceipt];
  return types.flatMap(type => world.receipts.deliveries({ from: account, fromDevice: 0, lid: sender.lid, to: sender, id, type }));
};

/** Shows a placeholder and asks the sending device for a new copy, with fresh keys to start over with. */
const askAgain = (world: World, account: Account, n: number, sender: Address, stanza: BinaryNode, error: string): void => {
  const { id = '', recipient } = stanza.attrs;
  const enc = getBinaryNodeChild(stanza, 'enc');
  const count = Number(enc?.attrs.count ?? 0) + 1;
  const records: StateRecord[] = [];
  if (sender.account !== account) {
    const entry: InboxEntry = { id, from: sender.account.phone, fromDevice: sender.device, text: null, kind: 'undecrypted', at: Date.now(), error };
    if (!account.inbox.has(inboxKey(entry.from, id))) records.push({ k: 'inbox', phone: account.phone, entry });
  }
  const known = account.inbox.get(inboxKey(sender.account.phone, id));
  // A repeated stanza of a message that was already read needs no new copy.
  const pointless = count > MAX_RETRIES || stanza.attrs.category === 'peer' || (known && known.kind !== 'undecrypted');
  if (pointless) {
    finish(world, account, n, records, []);
    return;
  }
  const [registration, ...keys] = bundleNodes(phoneBundle(account));
  const content = [
    node('retry', { count: String(count), id, t: unixNow(), v: '1', error: '0' }),
    ...(registration ? [registration] : []),
    node('keys', {}, keys)
  ];
  const receipt = { from: account, fromDevice: 0, lid: sender.lid, to: sender, id, type: 'retry', attributes: { recipient }, content };
  finish(world, account, n, records, world.receipts.deliveries(receipt));
};

const receiveReceipt = async (world: World, account: Account, stanza: BinaryNode): Promise<void> => {
  const { id = '', type, from } = stanza.attrs;
  const reader = world.store.resolve(from);
  if (!reader) return;
  if (type === 'retry') {
    await resend(world, account, reader, id, stanza);
    return;
  }
  const list = getBinaryNodeChild(stanza, 'list');
  const more = Array.isArray(list?.content) ? list.content.map(item => item.attrs.id ?? '') : [];
  const status: SentStatus = type === 'read' ? 'read' : type === 'played' ? 'played' : 'delivered';
  for (const sentId of [id, ...more]) {
    const sent = account.sent.get(sentId);
    if (sent && STATUS_RANK[status] > STATUS_RANK[sent.status]) {
      world.store.commitLazily([{ k: 'sentStatus', phone: account.phone, id: sentId, status }]);
    }
  }
};
