/** The key server: devices upload prekeys, others fetch a bundle and use up one one-time key each. */
import { encodeBigEndian, getBinaryNodeChild, getBinaryNodeChildren, KEY_BUNDLE_TYPE, type BinaryNode } from 'baileys';
import { phoneBundle, type KeyBundle } from '../phones/keys.ts';
import type { Account, Device } from '../state/model.ts';
import { encodeSignedPreKey, PACKED_PREKEY_BYTES } from '../state/model.ts';
import type { StateRecord } from '../state/records.ts';
import type { Store } from '../state/store.ts';
import type { World } from '../world.ts';
import type { Connection } from './connection.ts';
import { children, iqError, iqResult, node, requireBytes, SERVER_JID, unixNow } from './nodes.ts';

/** Below this the device is asked for more; Baileys uploads when fewer than five are left. */
const LOW_WATER = 5;
let notifications = 0;

const deviceBundle = (store: Store, account: Account, device: Device): KeyBundle => {
  const { registrationId, identity, signedPreKey } = device;
  const first = device.preKeys.subarray(0, PACKED_PREKEY_BYTES);
  if (first.length < PACKED_PREKEY_BYTES) return { registrationId, identity, signedPreKey };
  const preKey = { id: first.readUIntBE(0, 3), key: Buffer.from(first.subarray(3)) };
  // Written before it is handed out: a one-time key given twice could not be decrypted the second time.
  store.commit([{ k: 'preKeyUsed', phone: account.phone, id: device.id }]);
  return { registrationId, identity, signedPreKey, preKey };
};

/** A fresh bundle of any device of an account, the phone included. */
export const takeBundle = (world: World, account: Account, id: number): KeyBundle | undefined => {
  if (id === 0) return phoneBundle(account);
  const device = account.devices.get(id);
  if (!device) return undefined;
  const bundle = deviceBundle(world.store, account, device);
  askForMore(world, account, device);
  return bundle;
};

const askForMore = (world: World, account: Account, device: Device): void => {
  if (device.preKeyCount !== LOW_WATER - 1) return;
  const connection = world.hub.of(account.phone, device.id);
  if (!connection?.active) return;
  const id = `prekeys-${++notifications}`;
  connection.send(
    node('notification', { from: SERVER_JID, type: 'encrypt', id, t: unixNow() }, [node('count', { value: String(device.preKeyCount) })])
  );
};

const keyNode = (tag: string, id: number, key: Buffer, signature?: Buffer): BinaryNode =>
  node(tag, {}, [
    node('id', {}, encodeBigEndian(id, 3)),
    node('value', {}, key),
    ...(signature ? [node('signature', {}, signature)] : [])
  ]);

export const bundleNodes = (bundle: KeyBundle): BinaryNode[] => [
  node('registration', {}, encodeBigEndian(bundle.registrationId, 4)),
  node('type', {}, KEY_BUNDLE_TYPE),
  node('identity', {}, bundle.identity),
  keyNode('skey', bundle.signedPreKey.id, bundle.signedPreKey.key, bundle.signedPreKey.signature),
  ...(bundle.preKey ? [keyNode('key', bundle.preKey.id, bundle.preKey.key)] : [])
];

const bundlesFor = (world: World, request: BinaryNode): BinaryNode[] =>
  getBinaryNodeChildren(request, 'user').flatMap(user => {
    const address = world.store.resolve(user.attrs.jid);
    const bundle = address ? takeBundle(world, address.account, address.device) : undefined;
    // An unknown or unlinked device is left out: one <error> would make the client give up on all of them.
    return bundle ? [node('user', { jid: user.attrs.jid, t: unixNow() }, bundleNodes(bundle))] : [];
  });

const signedPreKeyOf = (parent: BinaryNode | undefined): Device['signedPreKey'] | undefined => {
  const skey = parent ? getBinaryNodeChild(parent, 'skey') : undefined;
  if (!skey) return undefined;
  return { id: requireBytes(skey, 'id').readUIntBE(0, 3), key: requireBytes(skey, 'value'), signature: requireBytes(skey, 'signature') };
};

const upload = (world: World, account: Account, device: Device, stanza: BinaryNode): void => {
  const { phone } = account;
  const keys = children(getBinaryNodeChild(stanza, 'list')).map(key => Buffer.concat([requireBytes(key, 'id'), requireBytes(key, 'value')]));
  const records: StateRecord[] = [{ k: 'preKeys', phone, id: device.id, packed: Buffer.concat(keys).toString('base64') }];
  const signed = signedPreKeyOf(stanza);
  if (signed) records.push({ k: 'signedPreKey', phone, id: device.id, key: encodeSignedPreKey(signed) });
  world.store.commit(records);
};

const rotate = (world: World, account: Account, device: Device, rotation: BinaryNode): void => {
  const signed = signedPreKeyOf(rotation);
  if (signed) world.store.commit([{ k: 'signedPreKey', phone: account.phone, id: device.id, key: encodeSignedPreKey(signed) }]);
};

/** All of `xmlns=encrypt`. */
export const onEncryptIq = (world: World, connection: Connection, stanza: BinaryNode): BinaryNode => {
  const { account, device } = connection;
  if (!account || !device) return iqError(stanza, 401, 'not-authorized');
  const request = getBinaryNodeChild(stanza, 'key');
  if (request) return iqResult(stanza, [node('list', {}, bundlesFor(world, request))]);
  if (getBinaryNodeChild(stanza, 'count')) return iqResult(stanza, [node('count', { value: String(device.preKeyCount) })]);
  if (getBinaryNodeChild(stanza, 'digest')) return iqResult(stanza, [node('digest')]);
  const rotation = getBinaryNodeChild(stanza, 'rotate');
  if (rotation) rotate(world, account, device, rotation);
  else if (getBinaryNodeChild(stanza, 'list')) upload(world, account, device, stanza);
  return iqResult(stanza);
};
