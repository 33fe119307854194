/** Ends a link: the device is told if it is there, and refused with 401 from now on. */
import { shortPhone } from '../log.ts';
import type { Account } from '../state/model.ts';
import type { World } from '../world.ts';
import { node } from './nodes.ts';

export const unlink = (world: World, account: Account, id: number): boolean => {
  if (!account.devices.has(id)) return false;
  const connection = world.hub.of(account.phone, id);
  world.store.commit([
    { k: 'unlink', phone: account.phone, id },
    { k: 'session', phone: account.phone, address: `${account.phone}.${id}`, session: null }
  ]);
  world.stats.unlinks += 1;
  world.log.info('unlinked', { phone: shortPhone(account.phone), device: id });
  connection?.streamError(401, [node('conflict', { type: 'device_removed' })]);
  world.deviceLists.changed(account);
  return true;
};
