/** What goes wrong on purpose: each fault is for everybody or for one phone, for ever or a number of times. */

export const PROXY_FAULT_MODES = ['auth', 'hang', 'refuse', 'drop', 'target-refused'] as const;
export type ProxyFaultMode = (typeof PROXY_FAULT_MODES)[number];

interface Rule {
  value: number;
  left: number;
}

const ALL = '*';

/** Rules of one kind by phone, with `*` for all; looking one up costs two map reads. */
class RuleSet {
  private readonly rules = new Map<string, Rule>();

  set(phone: string | undefined, value: number | null, count: number | undefined): void {
    const key = phone ?? ALL;
    if (value === null) this.rules.delete(key);
    else this.rules.set(key, { value, left: count ?? Infinity });
  }

  clear(): void {
    this.rules.clear();
  }

  /** The value that applies now, using up one of its times. */
  take(phone: string | undefined): number | undefined {
    for (const key of phone === undefined ? [ALL] : [phone, ALL]) {
      const rule = this.rules.get(key);
      if (!rule) continue;
      rule.left -= 1;
      if (rule.left <= 0) this.rules.delete(key);
      return rule.value;
    }
    return undefined;
  }

  toJSON(): object {
    return Object.fromEntries(
      [...this.rules].map(([phone, { value, left }]) => [phone, { value, left: left === Infinity ? null : left }])
    );
  }
}

export type RuleName = 'refuseLogin' | 'nackSends' | 'ackDelayMs' | 'noAcks' | 'loseSends' | 'mediaStatus' | 'mediaStallMs';

export class Faults {
  readonly refuseLogin = new RuleSet();
  readonly nackSends = new RuleSet();
  readonly ackDelayMs = new RuleSet();
  readonly noAcks = new RuleSet();
  readonly loseSends = new RuleSet();
  readonly mediaStatus = new RuleSet();
  readonly mediaStallMs = new RuleSet();
  blackHole = false;
  upgradeStatus: number | null = null;

  clear(): void {
    const { refuseLogin, nackSends, ackDelayMs, noAcks, loseSends, mediaStatus, mediaStallMs } = this;
    for (const rules of [refuseLogin, nackSends, ackDelayMs, noAcks, loseSends, mediaStatus, mediaStallMs]) rules.clear();
    this.blackHole = false;
    this.upgradeStatus = null;
  }

  toJSON(): object {
    const { refuseLogin, nackSends, ackDelayMs, noAcks, loseSends, mediaStatus, mediaStallMs, blackHole, upgradeStatus } = this;
    return { refuseLogin, nackSends, ackDelayMs, noAcks, loseSends, mediaStatus, mediaStallMs, blackHole, upgradeStatus };
  }
}
