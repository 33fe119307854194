/** The first thing a client says decides: a known device logs in, an unknown one is offered pairing. */
import { messageOf } from '../errors.ts';
import { shortPhone } from '../log.ts';
import type { World } from '../world.ts';
import type { Connection } from './connection.ts';
import type { HandshakeResult } from './noise.ts';
import { node, unixNow } from './nodes.ts';

export const refuse = (connection: Connection, code: number): void =>
  connection.closeWith(node('failure', { reason: String(code), location: 'sim' }));

export const onHello = (world: World, connection: Connection, hello: HandshakeResult): void => {
  const username = hello.payload.username ? String(hello.payload.username) : undefined;
  const refused = world.faults.refuseLogin.take(username);
  if (refused !== undefined) {
    world.stats.refusedLogins += 1;
    refuse(connection, refused);
    return;
  }
  if (username === undefined) {
    world.pairing.offer(connection, hello);
    return;
  }
  try {
    logIn(world, connection, hello, username);
  } catch (error) {
    world.log.error('login_failed', { error: messageOf(error) });
    connection.terminate();
  }
};

const logIn = (world: World, connection: Connection, hello: HandshakeResult, phone: string): void => {
  const account = world.store.account(phone);
  const device = account?.devices.get(hello.payload.device ?? 0);
  if (!account || !device?.noiseKey.equals(hello.clientStaticKey)) {
    world.stats.refusedLogins += 1;
    world.log.info('login_refused', { phone: shortPhone(phone), device: hello.payload.device });
    refuse(connection, 401);
    return;
  }
  const older = world.hub.of(phone, device.id);
  if (older) {
    world.stats.conflicts += 1;
    older.streamError(undefined, [node('conflict', { type: 'replaced' })]);
  }
  connection.account = account;
  connection.device = device;
  world.hub.attach(connection);
  world.stats.logins += 1;
  world.log.info('login', { phone: shortPhone(phone), device: device.id, remoteAddress: connection.remoteAddress });
  connection.send(node('success', { t: unixNow(), props: '0', companion_enc_static: '', lid: account.jid(device.id, true) }));
};
