/** Stanzas waiting for one device, oldest first; each stays until the device has acknowledged it. */

export interface QueueItem {
  n: number;
  /** `tag:id` of the stanza; this is all that an acknowledgement tells. */
  key: string;
  stanza: Buffer;
}

export class StanzaQueue {
  private readonly items = new Map<number, QueueItem>();
  private readonly byKey = new Map<string, number[]>();
  private next = 1;

  get size(): number {
    return this.items.size;
  }

  reserve(): number {
    return this.next++;
  }

  add(item: QueueItem): void {
    this.items.set(item.n, item);
    this.next = Math.max(this.next, item.n + 1);
    const numbers = this.byKey.get(item.key);
    if (numbers) numbers.push(item.n);
    else this.byKey.set(item.key, [item.n]);
  }

  remove(n: number): void {
    const item = this.items.get(n);
    if (!item) return;
    this.items.delete(n);
    const numbers = this.byKey.get(item.key)?.filter(other => other !== n) ?? [];
    if (numbers.length) this.byKey.set(item.key, numbers);
    else this.byKey.delete(item.key);
  }

  /** Two stanzas may carry one id (a repeated message): the oldest is the one acknowledged first. */
  oldestOf(key: string): number | undefined {
    return this.byKey.get(key)?.[0];
  }

  get(n: number): QueueItem | undefined {
    return this.items.get(n);
  }

  first(): QueueItem | undefined {
    for (const item of this.items.values()) return item;
    return undefined;
  }

  all(): QueueItem[] {
    return [...this.items.values()];
  }
}
