/** A phone sends: encrypted for every device of the other side and for the phone's own linked devices. */
import { randomBytes } from 'node:crypto';
import { extractE2ESessionFromRetryReceipt, getBinaryNodeChild, proto, type BinaryNode } from 'baileys';
import { badRequest } from '../errors.ts';
import { acceptedRecord, messageStanza, type Envelope } from '../server/messages.ts';
import { node } from '../server/nodes.ts';
import type { Delivery } from '../server/post.ts';
import { takeBundle } from '../server/preKeys.ts';
import { inboxKey, type Account } from '../state/model.ts';
import type { SentRecord, StateRecord } from '../state/records.ts';
import { normalisePhone, type Address } from '../state/store.ts';
import type { World } from '../world.ts';
import { compose, type SendRequest } from './compose.ts';
import { SignalTransaction } from './signal.ts';

export interface SentMessage {
  id: string;
  to: string;
  kind: string;
}

export const newMessageId = (): string => `3A${randomBytes(9).toString('hex').toUpperCase()}`;

/** One encrypted copy for one device, with a session made on the spot if there is none. */
export const encryptFor = async (
  world: World,
  signal: SignalTransaction,
  to: Address,
  message: proto.IMessage,
  count?: number
): Promise<BinaryNode | undefined> => {
  const { account, device } = to;
  if (!signal.hasSession(account.phone, device)) {
    const bundle = takeBundle(world, account, device);
    if (!bundle) return undefined;
    await signal.startSession(account.phone, device, bundle);
  }
  const { type, ciphertext } = await signal.encrypt(account.phone, device, message);
  return node('enc', { v: '2', type, count: count === undefined ? undefined : String(count) }, ciphertext);
};

const copiesFor = async (world: World, signal: SignalTransaction, envelope: Envelope, receiver: Account, message: proto.IMessage): Promise<Delivery[]> => {
  const sender = envelope.from;
  const ownCopy: proto.IMessage = { deviceSentMessage: { destinationJid: envelope.to, message } };
  const targets: { to: Address; message: proto.IMessage }[] = [];
  const add = (account: Account, content: proto.IMessage) => {
    for (const device of [0, ...account.devices.keys()]) {
      if (account !== sender || device !== 0) targets.push({ to: { account, device, lid: false }, message: content });
    }
  };
  if (receiver !== sender) add(receiver, message);
  add(sender, ownCopy);
  const deliveries: Delivery[] = [];
  for (const target of targets) {
    const enc = await encryptFor(world, signal, target.to, target.message);
    if (enc) deliveries.push({ ...target.to, stanza: messageStanza(envelope, target.to, [enc]) });
  }
  return deliveries;
};

export const sendFromPhone = async (world: World, account: Account, request: SendRequest): Promise<SentMessage> => {
  const receiver = world.store.account(normalisePhone(request.to ?? ''));
  if (!receiver) throw badRequest(`${request.to} is not on WhatsApp: create the phone first`, 'NOT_ON_WHATSAPP');
  const { kind, type, message, edit } = await compose(world, account, receiver.phone, request);
  const id = newMessageId();
  const envelope: Envelope = { from: account, fromDevice: 0, id, to: receiver.jid(0, request.byLid), type, edit };
  const signal = new SignalTransaction(account);
  const shipment = world.post.prepare(await copiesFor(world, signal, envelope, receiver, message));
  const encoded = Buffer.from(proto.Message.encode(message).finish()).toString('base64');
  const words = { ...(type === 'text' ? {} : { type }), ...(edit ? { edit } : {}), ...(request.byLid ? { byLid: true } : {}) };
  const sent: SentRecord = { id, to: receiver.phone, at: Date.now(), kind, message: encoded, status: 'sent', ...words };
  world.store.commit([
    acceptedRecord(world, envelope),
    { k: 'sent', phone: account.phone, sent },
    ...signal.records(),
    ...shipment.records
  ]);
  shipment.send();
  return { id, to: receiver.phone, kind };
};

/** Answers a retry request: a new copy for that one device, on a new session. */
export const resend = async (world: World, account: Account, asking: Address, id: string, receipt: BinaryNode): Promise<void> => {
  const sent = account.sent.get(id);
  if (!sent) return;
  const signal = new SignalTransaction(account);
  const keys = extractE2ESessionFromRetryReceipt(receipt);
  const { account: other, device } = asking;
  const bare = (key: Uint8Array) => Buffer.from(key.subarray(key.length - 32));
  const bundle = keys
    ? {
        registrationId: keys.registrationId,
        identity: bare(keys.identityKey),
        signedPreKey: { id: keys.signedPreKey.keyId, key: bare(keys.signedPreKey.publicKey), signature: Buffer.from(keys.signedPreKey.signature) },
        ...(keys.preKey ? { preKey: { id: keys.preKey.keyId, key: bare(keys.preKey.publicKey) } } : {})
      }
    : takeBundle(world, other, device);
  if (!bundle) return;
  await signal.startSession(other.phone, device, bundle);
  const message = proto.Message.decode(Buffer.from(sent.message, 'base64'));
  const chat = world.store.account(sent.to)?.jid(0, sent.byLid) ?? `${sent.to}@s.whatsapp.net`;
  const envelope: Envelope = { from: account, fromDevice: 0, id, to: chat, type: sent.type ?? 'text', edit: sent.edit };
  const content = other === account ? { deviceSentMessage: { destinationJid: envelope.to, message } } : message;
  const count = Number(getBinaryNodeChild(receipt, 'retry')?.attrs.count ?? 1);
  const enc = await encryptFor(world, signal, asking, content, count);
  if (!enc) return;
  const shipment = world.post.prepare([{ ...asking, stanza: messageStanza(envelope, asking, [enc]) }]);
  world.store.commit([acceptedRecord(world, envelope), ...signal.records(), ...shipment.records]);
  shipment.send();
};

/** Read (or played) receipts for one message or for all that were not read yet. */
export const sendRead = (world: World, account: Account, id: string | undefined, type: 'read' | 'played'): number => {
  const entries = [...account.inbox.values()].filter(entry =>
    id === undefined ? !entry.fromMe && !account.readKeys.has(inboxKey(entry.from, entry.id)) : entry.id === id
  );
  if (id !== undefined && !entries.length) throw badRequest(`no message ${id} in this inbox`, 'NO_SUCH_MESSAGE');
  const records: StateRecord[] = [];
  const deliveries: Delivery[] = [];
  for (const entry of entries) {
    const sender = world.store.account(entry.from);
    if (!sender) continue;
    records.push({ k: 'readByPhone', phone: account.phone, key: inboxKey(entry.from, entry.id) });
    const to = { account: sender, device: entry.fromDevice, lid: entry.lid ?? false };
    deliveries.push(...world.receipts.deliveries({ from: account, fromDevice: 0, lid: to.lid, to, id: entry.id, type }));
  }
  const shipment = world.post.prepare(deliveries);
  world.store.commit([...records, ...shipment.records]);
  shipment.send();
  return entries.length;
};
