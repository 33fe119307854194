/** Requests of a client, by namespace; what is not known gets an empty answer, as most of it needs no more. */
import { getBinaryNodeChild, type BinaryNode } from 'baileys';
import type { World } from '../world.ts';
import type { Connection } from './connection.ts';
import { onEncryptIq } from './preKeys.ts';
import { unlink } from './unlink.ts';
import { onUsyncIq } from './usync.ts';
import { children, iqError, iqResult, node } from './nodes.ts';

const PRIVACY = ['readreceipts', 'last', 'online', 'profile', 'status', 'groupadd', 'calladd', 'messages'];
/** Long enough that no test refreshes it, short enough to look real. */
const MEDIA_AUTH_TTL_S = '3600';

/** Every collection must be in the answer: a client asks again at once for one that is missing. */
const appState = (stanza: BinaryNode): BinaryNode => {
  const collections = children(getBinaryNodeChild(stanza, 'sync')).map(({ attrs, content }) => {
    const patched = Array.isArray(content) && content.some(child => child.tag === 'patch');
    const version = String(Number(attrs.version ?? 0) + (patched ? 1 : 0));
    return node('collection', { name: attrs.name, version, has_more_patches: 'false' });
  });
  return iqResult(stanza, [node('sync', {}, collections)]);
};

const privacy = (stanza: BinaryNode): BinaryNode => {
  const tokens = getBinaryNodeChild(stanza, 'tokens');
  if (tokens) return iqResult(stanza);
  return iqResult(stanza, [node('privacy', {}, PRIVACY.map(name => node('category', { name, value: 'all' })))]);
};

const mediaConnection = (world: World, stanza: BinaryNode): BinaryNode =>
  iqResult(stanza, [
    node('media_conn', { auth: 'simulated', ttl: MEDIA_AUTH_TTL_S, auth_ttl: MEDIA_AUTH_TTL_S, max_buckets: '12' }, [
      node('host', { hostname: world.mediaHost(), maxContentLengthBytes: '2147483648' })
    ])
  ]);

const groups = (stanza: BinaryNode): BinaryNode =>
  getBinaryNodeChild(stanza, 'participating') ? iqResult(stanza, [node('groups', {}, [])]) : iqError(stanza, 404, 'item-not-found');

const linking = async (world: World, connection: Connection, stanza: BinaryNode): Promise<BinaryNode | undefined> => {
  const code = getBinaryNodeChild(stanza, 'link_code_companion_reg');
  if (code?.attrs.stage === 'companion_hello') return world.pairCodes.onCompanionHello(connection, stanza, code);
  if (code?.attrs.stage === 'companion_finish') return world.pairCodes.onCompanionFinish(connection, stanza, code);
  if (getBinaryNodeChild(stanza, 'remove-companion-device') && connection.account && connection.device) {
    connection.send(iqResult(stanza));
    unlink(world, connection.account, connection.device.id);
    return undefined;
  }
  return iqResult(stanza);
};

/** The client wants its messages from now on; its phone greets a device that is here for the first time. */
const becomeActive = async (world: World, connection: Connection, stanza: BinaryNode): Promise<void> => {
  connection.send(iqResult(stanza));
  if (!getBinaryNodeChild(stanza, 'active') || !connection.account || !connection.device) return;
  await world.post.deliverBacklog(connection);
  if (!connection.device.bootstrapped) world.phones.greetDevice(connection.account, connection.device.id);
};

const answer = async (world: World, connection: Connection, stanza: BinaryNode): Promise<BinaryNode | undefined> => {
  switch (stanza.attrs.xmlns) {
    case 'encrypt':
      return onEncryptIq(world, connection, stanza);
    case 'usync':
      return onUsyncIq(world, connection, stanza);
    case 'passive':
      await becomeActive(world, connection, stanza);
      return undefined;
    case 'md':
      return linking(world, connection, stanza);
    case 'w:sync:app:state':
      return appState(stanza);
    case 'privacy':
      return privacy(stanza);
    case 'blocklist':
      return iqResult(stanza, [node('list', {}, [])]);
    case 'abt':
      return iqResult(stanza, [node('props', {}, [])]);
    case 'w:m':
      return mediaConnection(world, stanza);
    case 'w:g2':
      return groups(stanza);
    case 'w:profile:picture':
      return iqError(stanza, 404, 'item-not-found');
    default:
      return iqResult(stanza);
  }
};

export const onIq = async (world: World, connection: Connection, stanza: BinaryNode): Promise<void> => {
  const { type } = stanza.attrs;
  if (type === 'result' || type === 'error') {
    if (world.pairing.expectsSignature(connection)) world.pairing.onSigned(connection, stanza);
    return;
  }
  const reply = await answer(world, connection, stanza);
  if (reply) connection.send(reply);
};
