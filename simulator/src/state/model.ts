/** The world in memory: accounts, their phone (device 0) and their linked devices. */
import type { AutoReceipt, DeviceRecord, InboxEntry, SentRecord, StoredSession } from './records.ts';
import { StanzaQueue } from './queue.ts';

/** id (3 bytes, big endian) and public key of one one-time prekey. */
export const PACKED_PREKEY_BYTES = 35;

export class Device {
  readonly id: number;
  readonly keyIndex: number;
  readonly noiseKey: Buffer;
  readonly identity: Buffer;
  readonly registrationId: number;
  readonly platform: string;
  readonly linkedAt: number;
  signedPreKey: { id: number; key: Buffer; signature: Buffer };
  /** One buffer instead of 812 objects: 500 devices would otherwise take 400,000 of them. */
  preKeys: Buffer = Buffer.alloc(0);
  bootstrapped = false;
  readonly queue = new StanzaQueue();

  constructor(record: DeviceRecord) {
    this.id = record.id;
    this.keyIndex = record.keyIndex;
    this.noiseKey = Buffer.from(record.noiseKey, 'base64');
    this.identity = Buffer.from(record.identity, 'base64');
    this.registrationId = record.registrationId;
    this.platform = record.platform;
    this.linkedAt = record.linkedAt;
    this.signedPreKey = decodeSignedPreKey(record.signedPreKey);
  }

  get preKeyCount(): number {
    return this.preKeys.length / PACKED_PREKEY_BYTES;
  }

  toRecord(): DeviceRecord {
    return {
      id: this.id,
      keyIndex: this.keyIndex,
      noiseKey: this.noiseKey.toString('base64'),
      identity: this.identity.toString('base64'),
      registrationId: this.registrationId,
      signedPreKey: encodeSignedPreKey(this.signedPreKey),
      platform: this.platform,
      linkedAt: this.linkedAt
    };
  }
}

export const decodeSignedPreKey = (key: DeviceRecord['signedPreKey']): Device['signedPreKey'] => ({
  id: key.id,
  key: Buffer.from(key.key, 'base64'),
  signature: Buffer.from(key.signature, 'base64')
});

export const encodeSignedPreKey = (key: Device['signedPreKey']): DeviceRecord['signedPreKey'] => ({
  id: key.id,
  key: key.key.toString('base64'),
  signature: key.signature.toString('base64')
});

export const inboxKey = (from: string, id: string): string => `${from}|${id}`;

export class Account {
  autoReceipt: AutoReceipt = 'delivered';
  nextDevice = 1;
  readonly devices = new Map<number, Device>();
  /** The phone's own queue, Signal sessions, received and sent messages. */
  readonly queue = new StanzaQueue();
  readonly sessions = new Map<string, StoredSession>();
  readonly inbox = new Map<string, InboxEntry>();
  readonly readKeys = new Set<string>();
  readonly sent = new Map<string, SentRecord>();

  constructor(
    readonly phone: string,
    readonly lid: string,
    readonly seed: Buffer,
    readonly name: string
  ) {}

  queueOf(device: number): StanzaQueue | undefined {
    return device === 0 ? this.queue : this.devices.get(device)?.queue;
  }

  jid(device = 0, lid = false): string {
    return `${lid ? this.lid : this.phone}${device ? `:${device}` : ''}@${lid ? 'lid' : 's.whatsapp.net'}`;
  }
}

export interface AcceptedMessage {
  to: string;
  copies: number;
  retries: number;
  /** Copies that receivers have asked for again and not got yet. */
  owed: number;
}

export class Model {
  readonly accounts = new Map<string, Account>();
  readonly byLid = new Map<string, Account>();
  /** `sender|id` of every message that was accepted, with the number of stanzas seen. */
  readonly accepted = new Map<string, AcceptedMessage>();
  acceptedStanzas = 0;
  duplicateStanzas = 0;
}
