/** Look-ups of users: which devices they have, their LID, whether a number is on WhatsApp. */
import { getBinaryNodeChild, getBinaryNodeChildren, type BinaryNode } from 'baileys';
import type { Account } from '../state/model.ts';
import type { Address } from '../state/store.ts';
import type { World } from '../world.ts';
import type { Connection } from './connection.ts';
import { bytesOf, children, iqResult, node } from './nodes.ts';

const devicesNode = (account: Account): BinaryNode =>
  node('devices', {}, [
    node('device-list', {}, [
      node('device', { id: '0' }),
      // Without key-index a client skips every device but the phone.
      ...[...account.devices.values()].map(device => node('device', { id: String(device.id), 'key-index': String(device.keyIndex) }))
    ])
  ]);

const answerFor = (protocol: string, address: Address | undefined): BinaryNode | undefined => {
  switch (protocol) {
    case 'devices':
      return address ? devicesNode(address.account) : node('devices', {}, [node('device-list', {}, [])]);
    case 'lid':
      return address ? node('lid', { val: address.account.jid(0, true) }) : undefined;
    case 'contact':
      return node('contact', { type: address ? 'in' : 'out' });
    case 'status':
      return node('status', { t: '0' }, Buffer.alloc(0));
    default:
      return undefined;
  }
};

/** A user is asked for by jid, or by a phone number in a <contact>. */
const askedJid = (user: BinaryNode): string | undefined => {
  if (user.attrs.jid) return user.attrs.jid;
  const phone = bytesOf(getBinaryNodeChild(user, 'contact'))?.toString().replace(/\D/g, '');
  return phone ? `${phone}@s.whatsapp.net` : undefined;
};

export const onUsyncIq = (world: World, connection: Connection, stanza: BinaryNode): BinaryNode => {
  const usync = getBinaryNodeChild(stanza, 'usync');
  const query = usync ? getBinaryNodeChild(usync, 'query') : undefined;
  const list = usync ? getBinaryNodeChild(usync, 'list') : undefined;
  const protocols = children(query).map(child => child.tag);
  const users = (list ? getBinaryNodeChildren(list, 'user') : []).flatMap(user => {
    const jid = askedJid(user);
    if (!jid) return [];
    const address = world.store.resolve(jid);
    if (address && protocols.includes('devices')) world.deviceLists.watch(address.account, connection);
    return [node('user', { jid }, protocols.flatMap(protocol => answerFor(protocol, address) ?? []))];
  });
  return iqResult(stanza, [node('usync', usync?.attrs ?? {}, [node('result'), node('list', {}, users)])]);
};
