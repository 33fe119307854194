/** Who is connected right now: one connection per linked device. */
import type { Account } from '../state/model.ts';
import type { Connection } from './connection.ts';

export const deviceKey = (phone: string, device: number): string => `${phone}.${device}`;

export class Hub {
  readonly all = new Set<Connection>();
  private readonly byDevice = new Map<string, Connection>();

  attach(connection: Connection): void {
    if (!connection.account || !connection.device) return;
    this.byDevice.set(deviceKey(connection.account.phone, connection.device.id), connection);
  }

  detach(connection: Connection): void {
    this.all.delete(connection);
    if (!connection.account || !connection.device) return;
    const key = deviceKey(connection.account.phone, connection.device.id);
    // A newer connection of the same device may already have taken the place.
    if (this.byDevice.get(key) === connection) this.byDevice.delete(key);
  }

  of(phone: string, device: number): Connection | undefined {
    return this.byDevice.get(deviceKey(phone, device));
  }

  ofAccount(account: Account): Connection[] {
    return [...account.devices.keys()].flatMap(id => this.of(account.phone, id) ?? []);
  }

  get loggedIn(): number {
    return this.byDevice.size;
  }
}
