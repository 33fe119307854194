/** What is written to the journal: every change of the world as one small record. */

export type AutoReceipt = 'delivered' | 'read' | 'none';

export interface DeviceRecord {
  id: number;
  keyIndex: number;
  noiseKey: string;
  identity: string;
  registrationId: number;
  signedPreKey: { id: number; key: string; signature: string };
  platform: string;
  linkedAt: number;
}

export interface MediaInfo {
  mimetype: string;
  size: number;
  sha256: string;
  fileName?: string;
  error?: string;
}

export interface SharedContact {
  name: string;
  vcard: string;
}

export interface InboxEntry {
  id: string;
  from: string;
  /** Device of the sender: 0 is the phone itself, others are linked devices. */
  fromDevice: number;
  text: string | null;
  kind: string;
  at: number;
  /** The chat is addressed by LID, so that answers and receipts use it too. */
  lid?: boolean;
  fromMe?: boolean;
  caption?: string;
  quotedId?: string;
  mentions?: string[];
  media?: MediaInfo;
  location?: { latitude: number; longitude: number; name?: string; address?: string };
  /** The first (and mostly only) shared contact, and all of them. */
  contact?: SharedContact;
  contacts?: SharedContact[];
  poll?: { question: string; options: string[]; selectable: number };
  /** What votes on this poll are encrypted with, base64. */
  pollSecret?: string;
  reaction?: { emoji: string; targetId: string };
  error?: string;
}

export type SentStatus = 'sent' | 'delivered' | 'read' | 'played';

export interface SentRecord {
  id: string;
  to: string;
  at: number;
  kind: string;
  /** The encoded message, kept so that a retry receipt can be answered. */
  message: string;
  status: SentStatus;
  /** The stanza's own words, for a retry; left out for a plain text. */
  type?: string;
  edit?: string;
  byLid?: boolean;
}

/** A libsignal session record in its own serialised form. */
export type StoredSession = Record<string, unknown>;

export type StateRecord =
  | { k: 'account'; phone: string; lid: string; seed: string; name: string }
  | { k: 'autoReceipt'; phone: string; value: AutoReceipt }
  | { k: 'device'; phone: string; device: DeviceRecord }
  | { k: 'nextDevice'; phone: string; value: number }
  | { k: 'bootstrapped'; phone: string; id: number }
  | { k: 'unlink'; phone: string; id: number }
  | { k: 'signedPreKey'; phone: string; id: number; key: DeviceRecord['signedPreKey'] }
  | { k: 'preKeys'; phone: string; id: number; packed: string }
  | { k: 'preKeyUsed'; phone: string; id: number }
  | { k: 'accepted'; from: string; id: string; to: string; copies: number; retries: number }
  | { k: 'retryAsked'; from: string; id: string; count: number }
  | { k: 'queue'; phone: string; device: number; n: number; key: string; stanza: string }
  | { k: 'unqueue'; phone: string; device: number; n: number }
  | { k: 'session'; phone: string; address: string; session: StoredSession | null }
  | { k: 'inbox'; phone: string; entry: InboxEntry }
  | { k: 'readByPhone'; phone: string; key: string }
  | { k: 'sent'; phone: string; sent: SentRecord }
  | { k: 'sentStatus'; phone: string; id: string; status: SentStatus };
