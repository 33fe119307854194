/** All simulated phones: each handles its own queue, one stanza after the other. */
import { decodeBinaryNode } from 'baileys';
import { messageOf } from '../errors.ts';
import { shortPhone } from '../log.ts';
import type { Account } from '../state/model.ts';
import type { World } from '../world.ts';
import type { SendRequest } from './compose.ts';
import { greet } from './greet.ts';
import { receive } from './receive.ts';
import { sendFromPhone, sendRead, type SentMessage } from './send.ts';

export class Phones {
  /** The last task per busy phone: phones with nothing to do cost nothing. */
  private readonly busy = new Map<string, Promise<unknown>>();

  constructor(private readonly world: World) {
    for (const account of world.store.model.accounts.values()) if (account.queue.size) this.wake(account);
  }

  /** Everything a phone does runs in order, so that its sessions change one step at a time. */
  private run<T>(account: Account, task: () => Promise<T>): Promise<T> {
    const before = this.busy.get(account.phone) ?? Promise.resolve();
    const result = before.then(task);
    const settled = result.catch(() => undefined);
    this.busy.set(account.phone, settled);
    void settled.then(() => {
      if (this.busy.get(account.phone) === settled) this.busy.delete(account.phone);
    });
    return result;
  }

  wake(account: Account): void {
    this.run(account, () => this.drain(account)).catch((error: unknown) =>
      this.world.log.error('phone_failed', { phone: shortPhone(account.phone), error: messageOf(error) })
    );
  }

  private async drain(account: Account): Promise<void> {
    for (let item = account.queue.first(); item; item = account.queue.first()) {
      await receive(this.world, account, item.n, await decodeBinaryNode(item.stanza));
      // Whatever went wrong, a stanza is handled once: it must not block the ones behind it.
      if (account.queue.get(item.n)) this.world.store.commit([{ k: 'unqueue', phone: account.phone, device: 0, n: item.n }]);
    }
  }

  /** Resolves when the phone has dealt with everything that has reached it so far. */
  async idle(account: Account): Promise<void> {
    await this.run(account, async () => undefined);
  }

  send(account: Account, request: SendRequest): Promise<SentMessage> {
    return this.run(account, () => sendFromPhone(this.world, account, request));
  }

  read(account: Account, id: string | undefined, type: 'read' | 'played'): Promise<number> {
    return this.run(account, async () => sendRead(this.world, account, id, type));
  }

  greetDevice(account: Account, device: number): void {
    this.run(account, () => greet(this.world, account, device)).catch((error: unknown) =>
      this.world.log.error('greeting_failed', { phone: shortPhone(account.phone), error: messageOf(error) })
    );
  }
}
