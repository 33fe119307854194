/** How a record changes the world, and how the world is told again as records (for compacting). */
import type { StateRecord } from './records.ts';
import { Account, Device, decodeSignedPreKey, encodeSignedPreKey, inboxKey, PACKED_PREKEY_BYTES, type Model } from './model.ts';

/** A phone answers retry requests for its last messages only; older ones are forgotten. */
const KEPT_SENT_MESSAGES = 500;

const applyToAccount = (account: Account, record: Exclude<StateRecord, { k: 'account' | 'accepted' | 'retryAsked' }>): void => {
  switch (record.k) {
    case 'autoReceipt':
      account.autoReceipt = record.value;
      break;
    case 'device':
      account.devices.set(record.device.id, new Device(record.device));
      account.nextDevice = Math.max(account.nextDevice, record.device.id + 1);
      break;
    case 'nextDevice':
      account.nextDevice = Math.max(account.nextDevice, record.value);
      break;
    case 'unlink':
      account.devices.delete(record.id);
      break;
    case 'session':
      if (record.session) account.sessions.set(record.address, record.session);
      else account.sessions.delete(record.address);
      break;
    case 'inbox':
      account.inbox.set(inboxKey(record.entry.from, record.entry.id), record.entry);
      break;
    case 'readByPhone':
      account.readKeys.add(record.key);
      break;
    case 'sent':
      account.sent.set(record.sent.id, record.sent);
      if (account.sent.size > KEPT_SENT_MESSAGES) account.sent.delete(account.sent.keys().next().value ?? '');
      break;
    case 'sentStatus': {
      const sent = account.sent.get(record.id);
      if (sent) sent.status = record.status;
      break;
    }
    case 'queue':
      account.queueOf(record.device)?.add({ n: record.n, key: record.key, stanza: Buffer.from(record.stanza, 'base64') });
      break;
    case 'unqueue':
      account.queueOf(record.device)?.remove(record.n);
      break;
    default:
      applyToDevice(account.devices.get(record.id), record);
  }
};

type DeviceChange = Extract<StateRecord, { k: 'bootstrapped' | 'signedPreKey' | 'preKeys' | 'preKeyUsed' }>;

const applyToDevice = (device: Device | undefined, record: DeviceChange): void => {
  if (!device) return;
  switch (record.k) {
    case 'bootstrapped':
      device.bootstrapped = true;
      break;
    case 'signedPreKey':
      device.signedPreKey = decodeSignedPreKey(record.key);
      break;
    case 'preKeys':
      device.preKeys = Buffer.concat([device.preKeys, Buffer.from(record.packed, 'base64')]);
      break;
    case 'preKeyUsed':
      device.preKeys = device.preKeys.subarray(PACKED_PREKEY_BYTES);
      break;
  }
};

export const apply = (model: Model, record: StateRecord): void => {
  if (record.k === 'account') {
    if (model.accounts.has(record.phone)) return;
    const account = new Account(record.phone, record.lid, Buffer.from(record.seed, 'base64'), record.name);
    model.accounts.set(account.phone, account);
    model.byLid.set(account.lid, account);
    return;
  }
  if (record.k === 'accepted') {
    const key = inboxKey(record.from, record.id);
    const known = model.accepted.get(key);
    model.acceptedStanzas += record.copies;
    model.duplicateStanzas += known ? record.copies : record.copies - 1;
    if (known) {
      known.copies += record.copies;
      known.retries += record.retries;
      known.owed = Math.max(0, known.owed - record.retries);
    } else {
      model.accepted.set(key, { to: record.to, copies: record.copies, retries: record.retries, owed: 0 });
    }
    return;
  }
  if (record.k === 'retryAsked') {
    const known = model.accepted.get(inboxKey(record.from, record.id));
    if (known) known.owed += record.count;
    return;
  }
  const account = model.accounts.get(record.phone);
  if (account) applyToAccount(account, record);
};

function* accountRecords(account: Account): Generator<StateRecord> {
  const { phone } = account;
  yield { k: 'account', phone, lid: account.lid, seed: account.seed.toString('base64'), name: account.name };
  if (account.autoReceipt !== 'delivered') yield { k: 'autoReceipt', phone, value: account.autoReceipt };
  yield { k: 'nextDevice', phone, value: account.nextDevice };
  for (const [address, session] of account.sessions) yield { k: 'session', phone, address, session };
  for (const entry of account.inbox.values()) yield { k: 'inbox', phone, entry };
  for (const key of account.readKeys) yield { k: 'readByPhone', phone, key };
  for (const sent of account.sent.values()) yield { k: 'sent', phone, sent };
  yield* queueRecords(account, 0);
  for (const device of account.devices.values()) {
    const { id } = device;
    yield { k: 'device', phone, device: device.toRecord() };
    yield { k: 'signedPreKey', phone, id, key: encodeSignedPreKey(device.signedPreKey) };
    if (device.preKeys.length) yield { k: 'preKeys', phone, id, packed: device.preKeys.toString('base64') };
    if (device.bootstrapped) yield { k: 'bootstrapped', phone, id };
    yield* queueRecords(account, id);
  }
}

function* queueRecords(account: Account, device: number): Generator<StateRecord> {
  for (const { n, key, stanza } of account.queueOf(device)?.all() ?? []) {
    yield { k: 'queue', phone: account.phone, device, n, key, stanza: stanza.toString('base64') };
  }
}

export function* snapshot(model: Model): Generator<StateRecord> {
  for (const account of model.accounts.values()) yield* accountRecords(account);
  for (const [key, { to, copies, retries, owed }] of model.accepted) {
    const split = key.indexOf('|');
    const [from, id] = [key.slice(0, split), key.slice(split + 1)];
    yield { k: 'accepted', from, id, to, copies, retries };
    if (owed) yield { k: 'retryAsked', from, id, count: owed };
  }
}
