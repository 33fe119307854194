/** Linking a device: offered as QR references, finished by a phone that signs the device's identity. */
import { createHmac, randomBytes } from 'node:crypto';
import { Curve, getBinaryNodeChild, proto, WA_ADV_ACCOUNT_SIG_PREFIX, WA_ADV_DEVICE_SIG_PREFIX, type BinaryNode } from 'baileys';
import { verifySignature } from 'libsignal/src/curve.js';
import { badRequest, SimulatorError } from '../errors.ts';
import { shortPhone } from '../log.ts';
import { phoneKeys } from '../phones/keys.ts';
import type { Account } from '../state/model.ts';
import type { DeviceRecord } from '../state/records.ts';
import type { World } from '../world.ts';
import type { Connection } from './connection.ts';
import type { HandshakeResult } from './noise.ts';
import { childBytes, node, SERVER_JID, unixNow } from './nodes.ts';

const REFS_PER_CONNECTION = 6;
const SIGN_TIMEOUT_MS = 10_000;
/** Remembered so that an old QR is told from a made-up one. */
const KEPT_OLD_REFS = 5_000;

export interface Candidate {
  connection: Connection;
  noiseKey: Buffer;
  identity: Buffer;
  registrationId: number;
  signedPreKey: { id: number; key: string; signature: string };
  refs: string[];
}

interface PendingSign {
  details: Buffer;
  accountKey: Buffer;
  candidate: Candidate;
  resolve(): void;
  reject(error: Error): void;
}

export interface Linked {
  phone: string;
  device: number;
  jid: string;
  lid: string;
}

export class Pairing {
  private readonly byRef = new Map<string, Candidate>();
  private readonly oldRefs = new Set<string>();
  private readonly byConnection = new Map<Connection, Candidate>();
  private readonly signing = new Map<Connection, PendingSign>();

  constructor(private readonly world: World) {}

  candidateOf(connection: Connection): Candidate | undefined {
    return this.byConnection.get(connection);
  }

  offer(connection: Connection, hello: HandshakeResult): void {
    const data = hello.payload.devicePairingData;
    if (!data?.eIdent || !data.eRegid || !data.eSkeyId || !data.eSkeyVal || !data.eSkeySig) {
      connection.closeWith(node('failure', { reason: '400', location: 'sim' }));
      return;
    }
    const candidate: Candidate = {
      connection,
      noiseKey: hello.clientStaticKey,
      identity: Buffer.from(data.eIdent),
      registrationId: Buffer.from(data.eRegid).readUIntBE(0, 4),
      signedPreKey: {
        id: Buffer.from(data.eSkeyId).readUIntBE(0, 3),
        key: Buffer.from(data.eSkeyVal).toString('base64'),
        signature: Buffer.from(data.eSkeySig).toString('base64')
      },
      refs: Array.from({ length: REFS_PER_CONNECTION }, () => `2@${randomBytes(66).toString('base64')}`)
    };
    this.byConnection.set(connection, candidate);
    for (const ref of candidate.refs) this.byRef.set(ref, candidate);
    const refs = candidate.refs.map(ref => node('ref', {}, Buffer.from(ref)));
    connection.send(node('iq', { from: SERVER_JID, type: 'set', xmlns: 'md', id: 'pair-device' }, [node('pair-device', {}, refs)]));
  }

  forget(connection: Connection): void {
    const candidate = this.byConnection.get(connection);
    if (!candidate) return;
    this.byConnection.delete(connection);
    this.retireRefs(candidate);
    this.signing.get(connection)?.reject(new SimulatorError('DEVICE_GONE', 409, 'the device closed the connection while it was being linked'));
  }

  private retireRefs(candidate: Candidate): void {
    for (const ref of candidate.refs) {
      this.byRef.delete(ref);
      this.oldRefs.add(ref);
      if (this.oldRefs.size > KEPT_OLD_REFS) this.oldRefs.delete(this.oldRefs.values().next().value ?? '');
    }
  }

  /** A phone scans what the device shows: the full address or the bare comma form. */
  async scan(account: Account, qr: string): Promise<Linked> {
    const [ref = '', noise = '', identity = '', secret = ''] = (qr.split('#').at(-1) ?? '').trim().split(',');
    if (!ref || !noise || !identity || !secret) throw badRequest('this is not a WhatsApp linking QR code', 'BAD_QR');
    const candidate = this.byRef.get(ref);
    if (!candidate) {
      if (this.oldRefs.has(ref)) throw badRequest('this QR code has expired; scan the current one', 'QR_EXPIRED');
      throw badRequest('this QR code is unknown to the server', 'QR_UNKNOWN');
    }
    const same = candidate.noiseKey.equals(Buffer.from(noise, 'base64')) && candidate.identity.equals(Buffer.from(identity, 'base64'));
    if (!same) throw badRequest('the keys in this QR code are not those of the waiting device', 'BAD_QR');
    return this.link(account, candidate, Buffer.from(secret, 'base64'));
  }

  /** The phone signs the device's identity; the link is on disk before the device hears of it. */
  async link(account: Account, candidate: Candidate, advSecret: Buffer): Promise<Linked> {
    const { connection } = candidate;
    if (connection.closed) throw badRequest('the device is no longer waiting to be linked', 'QR_EXPIRED');
    this.retireRefs(candidate);
    const id = account.nextDevice;
    const device: DeviceRecord = {
      id,
      keyIndex: id,
      noiseKey: candidate.noiseKey.toString('base64'),
      identity: candidate.identity.toString('base64'),
      registrationId: candidate.registrationId,
      signedPreKey: candidate.signedPreKey,
      platform: 'web',
      linkedAt: Date.now()
    };
    const identity = this.signIdentity(account, candidate, id);
    this.world.store.commit([{ k: 'device', phone: account.phone, device }]);
    const signed = this.waitForSignature(candidate, identity.details, Buffer.from(phoneKeys(account).identity.public));
    connection.send(this.pairSuccess(account, id, identity.signed, advSecret));
    try {
      await signed;
    } catch (error) {
      this.world.store.commit([{ k: 'unlink', phone: account.phone, id }]);
      throw error;
    }
    this.world.stats.pairings += 1;
    this.world.log.info('paired', { phone: shortPhone(account.phone), device: id });
    this.world.deviceLists.changed(account);
    // The real server asks every newly linked device to come back as itself.
    connection.streamError(515);
    return { phone: account.phone, device: id, jid: account.jid(id), lid: account.jid(id, true) };
  }

  private signIdentity(account: Account, candidate: Candidate, keyIndex: number): { details: Buffer; signed: Buffer } {
    const keys = phoneKeys(account);
    const details = Buffer.from(
      proto.ADVDeviceIdentity.encode({
        rawId: keys.registrationId,
        timestamp: Math.floor(Date.now() / 1000),
        keyIndex,
        accountType: proto.ADVEncryptionType.E2EE,
        deviceType: proto.ADVEncryptionType.E2EE
      }).finish()
    );
    const message = Buffer.concat([WA_ADV_ACCOUNT_SIG_PREFIX, details, candidate.identity]);
    const signed = proto.ADVSignedDeviceIdentity.encode({
      details,
      accountSignatureKey: keys.identity.public,
      accountSignature: Curve.sign(keys.identity.private, message)
    }).finish();
    return { details, signed: Buffer.from(signed) };
  }

  private pairSuccess(account: Account, id: number, signed: Buffer, advSecret: Buffer): BinaryNode {
    const hmac = createHmac('sha256', advSecret).update(signed).digest();
    const content = Buffer.from(proto.ADVSignedDeviceIdentityHMAC.encode({ details: signed, hmac }).finish());
    return node('iq', { from: SERVER_JID, type: 'set', id: 'pair-success', t: unixNow() }, [
      node('pair-success', {}, [
        node('device-identity', {}, content),
        node('platform', { name: 'android' }),
        node('device', { jid: account.jid(id), lid: account.jid(id, true) })
      ])
    ]);
  }

  private waitForSignature(candidate: Candidate, details: Buffer, accountKey: Buffer): Promise<void> {
    const { connection } = candidate;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => settle(new SimulatorError('DEVICE_SILENT', 504, 'the device did not confirm the link')), SIGN_TIMEOUT_MS);
      const settle = (error?: Error) => {
        clearTimeout(timer);
        this.signing.delete(connection);
        if (error) reject(error);
        else resolve();
      };
      this.signing.set(connection, { details, accountKey, candidate, resolve: () => settle(), reject: settle });
    });
  }

  /** The device's answer: its own signature over the identity it was given. */
  onSigned(connection: Connection, stanza: BinaryNode): void {
    const pending = this.signing.get(connection);
    const sign = getBinaryNodeChild(stanza, 'pair-device-sign');
    // Its answer to the codes themselves may come only now, when a quick hand has scanned one.
    if (!pending || !sign) return;
    const answer = childBytes(sign, 'device-identity');
    const signed = answer ? proto.ADVSignedDeviceIdentity.decode(answer) : undefined;
    if (isSignedByDevice(signed, pending)) pending.resolve();
    else pending.reject(new SimulatorError('BAD_SIGNATURE', 502, 'the device signed its identity wrongly'));
  }

  expectsSignature(connection: Connection): boolean {
    return this.signing.has(connection);
  }
}

/** Checked with libsignal itself: Baileys' own verify wrapper ignores the result. */
const isSignedByDevice = (signed: proto.ADVSignedDeviceIdentity | undefined, pending: PendingSign): boolean => {
  if (!signed?.details || !signed.deviceSignature || !pending.details.equals(Buffer.from(signed.details))) return false;
  const message = Buffer.concat([WA_ADV_DEVICE_SIG_PREFIX, pending.details, pending.candidate.identity, pending.accountKey]);
  const publicKey = Buffer.concat([Buffer.from([5]), pending.candidate.identity]);
  return verifySignature(publicKey, message, Buffer.from(signed.deviceSignature));
};
