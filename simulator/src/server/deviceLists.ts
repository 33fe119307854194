/** Who has asked for an account's devices, so that they can be told when the list changes. */
import type { Account } from '../state/model.ts';
import type { Connection } from './connection.ts';
import type { Hub } from './hub.ts';
import { node, unixNow } from './nodes.ts';

let notifications = 0;

export class DeviceLists {
  /** Clients cache a device list for minutes and would miss a newly linked device. */
  private readonly watchers = new Map<string, Set<Connection>>();
  private readonly watched = new Map<Connection, Set<string>>();

  constructor(private readonly hub: Hub) {}

  watch(account: Account, connection: Connection): void {
    const set = this.watchers.get(account.phone);
    if (set) set.add(connection);
    else this.watchers.set(account.phone, new Set([connection]));
    const phones = this.watched.get(connection);
    if (phones) phones.add(account.phone);
    else this.watched.set(connection, new Set([account.phone]));
  }

  forget(connection: Connection): void {
    for (const phone of this.watched.get(connection) ?? []) {
      const set = this.watchers.get(phone);
      set?.delete(connection);
      if (!set?.size) this.watchers.delete(phone);
    }
    this.watched.delete(connection);
  }

  changed(account: Account): void {
    const told = new Set([...(this.watchers.get(account.phone) ?? []), ...this.hub.ofAccount(account)]);
    this.watchers.delete(account.phone);
    const jids = [0, ...account.devices.keys()].flatMap(id => [account.jid(id), account.jid(id, true)]);
    for (const connection of told) {
      if (!connection.active) continue;
      const id = `devices-${++notifications}`;
      connection.send(
        node('notification', { from: account.jid(), type: 'devices', id, t: unixNow() }, [
          node('update', {}, jids.map(jid => node('device', { jid })))
        ])
      );
    }
  }}
