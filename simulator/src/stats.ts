/** Counters since this start; what must outlive a restart is counted in the state instead. */

export class Stats {
  readonly startedAt = Date.now();
  connections = 0;
  logins = 0;
  refusedLogins = 0;
  pairings = 0;
  unlinks = 0;
  conflicts = 0;
  nacks = 0;
  lostSends = 0;
  undecryptable = 0;
  mediaUploads = 0;
  mediaDownloads = 0;
  readonly receipts = { delivered: 0, read: 0, played: 0, retry: 0, other: 0 };
  readonly presence = { available: 0, unavailable: 0, subscribe: 0, composing: 0, recording: 0, paused: 0 };

  countReceipt(type: string | undefined): void {
    if (!type || type === 'inactive') this.receipts.delivered += 1;
    else if (type === 'read' || type === 'read-self') this.receipts.read += 1;
    else if (type === 'played' || type === 'played-self') this.receipts.played += 1;
    else if (type === 'retry') this.receipts.retry += 1;
    else this.receipts.other += 1;
  }
}
