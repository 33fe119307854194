/** Who is online and who is typing: passed on to those who are there, never kept. */
import type { BinaryNode } from 'baileys';
import type { Account } from '../state/model.ts';
import type { World } from '../world.ts';
import type { Connection } from './connection.ts';
import { children, node } from './nodes.ts';

export interface Typing {
  from: string;
  state: 'composing' | 'recording' | 'paused';
  at: number;
}

export class Presence {
  private readonly subscribers = new Map<string, Set<Connection>>();
  /** What each phone saw last on its screen. */
  private readonly typing = new Map<string, Typing>();

  constructor(private readonly world: World) {}

  lastTyping(phone: string): Typing | undefined {
    return this.typing.get(phone);
  }

  onPresence(connection: Connection, stanza: BinaryNode): void {
    const { account } = connection;
    const { type, to } = stanza.attrs;
    if (!account) return;
    if (type === 'subscribe') {
      this.world.stats.presence.subscribe += 1;
      const target = this.world.store.resolve(to)?.account;
      if (target) this.subscribe(target, connection);
    } else if (type === 'available' || type === 'unavailable') {
      this.world.stats.presence[type] += 1;
      this.announce(account, type);
    }
  }

  forget(connection: Connection): void {
    for (const phone of connection.subscriptions) this.subscribers.get(phone)?.delete(connection);
  }

  private subscribe(target: Account, connection: Connection): void {
    const set = this.subscribers.get(target.phone) ?? new Set();
    this.subscribers.set(target.phone, set.add(connection));
    connection.subscriptions.add(target.phone);
    const online = this.world.hub.ofAccount(target).some(other => other.active);
    connection.send(node('presence', { from: target.jid(), type: online ? undefined : 'unavailable' }));
  }

  private announce(account: Account, type: 'available' | 'unavailable'): void {
    for (const connection of this.subscribers.get(account.phone) ?? []) {
      connection.send(node('presence', { from: account.jid(), type: type === 'available' ? undefined : type }));
    }
  }

  onChatState(connection: Connection, stanza: BinaryNode): void {
    const { account, device } = connection;
    const target = this.world.store.resolve(stanza.attrs.to);
    const [child] = children(stanza);
    if (!account || !device || !child) return;
    const state = child.tag === 'paused' ? 'paused' : child.attrs.media === 'audio' ? 'recording' : 'composing';
    this.world.stats.presence[state] += 1;
    if (!target) return;
    this.typing.set(target.account.phone, { from: account.phone, state, at: Date.now() });
    for (const other of this.world.hub.ofAccount(target.account)) {
      if (other.active) other.send(node('chatstate', { from: account.jid(0, target.lid) }, [child]));
    }
  }
}
