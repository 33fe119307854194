/** The only way to change the world: a change is applied in memory and written to the journal together. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { randomBytes, randomInt } from 'node:crypto';
import { jidDecode } from 'baileys';
import { badRequest } from '../errors.ts';
import { apply, snapshot } from './apply.ts';
import { Journal } from './journal.ts';
import { Model, type Account } from './model.ts';
import type { StateRecord } from './records.ts';

/** Changes whose loss only costs a repeated delivery wait this long for company. */
const LAZY_WRITE_MS = 20;
/** Compact while running only when the file is large and mostly history. */
const COMPACT_MIN_BYTES = 256 * 1024 * 1024;

export interface Address {
  account: Account;
  device: number;
  lid: boolean;
}

/** Digits of a phone number or jid, whatever it is decorated with. */
export const normalisePhone = (input: string): string => {
  const digits = (input.split('@')[0] ?? '').split(':')[0]?.replace(/[\s+().-]/g, '') ?? '';
  if (!/^[1-9]\d{4,15}$/.test(digits)) throw badRequest(`"${input}" is not a phone number in international form`, 'BAD_PHONE');
  return digits;
};

export class Store {
  readonly model = new Model();
  private readonly journal: Journal<StateRecord>;
  private lazy: StateRecord[] = [];
  private lazyTimer: NodeJS.Timeout | undefined;
  private compactAt = COMPACT_MIN_BYTES;

  constructor(stateDir: string) {
    mkdirSync(stateDir, { recursive: true, mode: 0o700 });
    this.journal = new Journal<StateRecord>(join(stateDir, 'journal.jsonl'));
    for (const record of this.journal.read()) apply(this.model, record);
    this.compact();
  }

  /** On disk when this returns. */
  commit(records: readonly StateRecord[]): void {
    const all = this.lazy.length ? [...this.lazy, ...records] : records;
    this.lazy = [];
    if (!all.length) return;
    this.journal.append(all);
    for (const record of records) apply(this.model, record);
    if (this.journal.bytes > this.compactAt) this.compact();
  }

  /** In memory now, on disk a moment later. */
  commitLazily(records: readonly StateRecord[]): void {
    for (const record of records) apply(this.model, record);
    this.lazy.push(...records);
    this.lazyTimer ??= setTimeout(() => {
      this.lazyTimer = undefined;
      this.commit([]);
    }, LAZY_WRITE_MS);
  }

  private compact(): void {
    this.journal.rewrite(snapshot(this.model));
    this.compactAt = Math.max(COMPACT_MIN_BYTES, this.journal.bytes * 4);
  }

  account(phone: string): Account | undefined {
    return this.model.accounts.get(phone);
  }

  ensureAccount(phone: string): Account {
    const known = this.account(phone);
    if (known) return known;
    let lid = '';
    do lid = `${randomInt(1, 10)}${String(randomInt(0, 10 ** 13)).padStart(13, '0')}`;
    while (this.model.byLid.has(lid));
    this.commit([{ k: 'account', phone, lid, seed: randomBytes(32).toString('base64'), name: `Phone ${phone.slice(-4)}` }]);
    const account = this.account(phone);
    if (!account) throw new Error('account was not stored');
    return account;
  }

  /** Who a jid belongs to, by phone number or LID; the device need not exist. */
  resolve(jid: string | undefined): Address | undefined {
    const decoded = jid ? jidDecode(jid) : undefined;
    if (!decoded) return undefined;
    const lid = decoded.server === 'lid';
    if (!lid && decoded.server !== 's.whatsapp.net' && decoded.server !== 'c.us') return undefined;
    const account = lid ? this.model.byLid.get(decoded.user) : this.model.accounts.get(decoded.user);
    return account ? { account, device: decoded.device ?? 0, lid } : undefined;
  }

  close(): void {
    clearTimeout(this.lazyTimer);
    this.commit([]);
    this.journal.close();
  }
}
