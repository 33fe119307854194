/** Linking with an eight-character code: the phone's and the server's side of the key exchange. */
import { randomBytes } from 'node:crypto';
import { aesDecryptCTR, aesDecryptGCM, aesEncryptCTR, Curve, derivePairingCodeKey, hkdf, type BinaryNode, type KeyPair } from 'baileys';
import { badRequest, SimulatorError } from '../errors.ts';
import { phoneKeys } from '../phones/keys.ts';
import type { Account } from '../state/model.ts';
import { normalisePhone } from '../state/store.ts';
import type { World } from '../world.ts';
import type { Connection } from './connection.ts';
import type { Candidate, Linked } from './pairing.ts';
import { iqError, iqResult, node, requireBytes, SERVER_JID } from './nodes.ts';

const HELLO_WAIT_MS = 5_000;
const FINISH_WAIT_MS = 10_000;

interface CodeRequest {
  connection: Connection;
  ref: Buffer;
  wrappedEphemeral: Buffer;
  /** Set once a person has typed the code into the phone. */
  typed?: { account: Account; ephemeral: KeyPair; companionEphemeral: Buffer; done(linked: Linked): void; failed(error: Error): void };
}

const primaryHello = (account: Account, ref: Buffer, wrapped: Buffer): BinaryNode =>
  node('notification', { from: SERVER_JID, type: 'link_code_companion_reg', id: `code-${ref.toString('hex')}` }, [
    node('link_code_companion_reg', { stage: 'primary_hello' }, [
      node('link_code_pairing_wrapped_primary_ephemeral_pub', {}, wrapped),
      node('primary_identity_pub', {}, Buffer.from(phoneKeys(account).identity.public)),
      node('link_code_pairing_ref', {}, ref)
    ])
  ]);

/** The secret that later proves the link; it can only be computed if both sides used the same code. */
const openKeyBundle = (request: Required<CodeRequest>, candidate: Candidate, bundle: Buffer): Buffer => {
  const { account, ephemeral, companionEphemeral } = request.typed;
  const { identity } = phoneKeys(account);
  const shared = Curve.sharedKey(ephemeral.private, companionEphemeral);
  const key = hkdf(shared, 32, { salt: bundle.subarray(0, 32), info: 'link_code_pairing_key_bundle_encryption_key' });
  const plain = aesDecryptGCM(bundle.subarray(44), key, bundle.subarray(32, 44), Buffer.alloc(0));
  const companionIdentity = plain.subarray(0, 32);
  if (!companionIdentity.equals(candidate.identity) || !plain.subarray(32, 64).equals(identity.public)) {
    throw new Error('identities in the key bundle are wrong');
  }
  const identityShared = Curve.sharedKey(identity.private, companionIdentity);
  return Buffer.from(hkdf(Buffer.concat([shared, identityShared, plain.subarray(64, 96)]), 32, { info: 'adv_secret' }));
};

export class PairCodes {
  /** The newest request per phone number; a phone shows only one. */
  private readonly requests = new Map<string, CodeRequest>();
  /** Phones whose owner typed faster than the device asked. */
  private readonly waiting = new Map<string, () => void>();

  constructor(private readonly world: World) {}

  onCompanionHello(connection: Connection, stanza: BinaryNode, hello: BinaryNode): BinaryNode {
    if (!this.world.pairing.candidateOf(connection)) return iqError(stanza, 400, 'bad-request');
    const phone = normalisePhone(hello.attrs.jid ?? '');
    const ref = randomBytes(16);
    const wrappedEphemeral = requireBytes(hello, 'link_code_pairing_wrapped_companion_ephemeral_pub');
    this.requests.set(phone, { connection, ref, wrappedEphemeral });
    this.waiting.get(phone)?.();
    return iqResult(stanza, [
      node('link_code_companion_reg', { stage: 'companion_hello' }, [node('link_code_pairing_ref', {}, ref)])
    ]);
  }

  private liveRequest(phone: string): CodeRequest | undefined {
    const request = this.requests.get(phone);
    return request && !request.connection.closed ? request : undefined;
  }

  private async findRequest(phone: string): Promise<CodeRequest> {
    const now = this.liveRequest(phone);
    if (now) return now;
    await new Promise<void>(resolve => {
      const timer = setTimeout(resolve, HELLO_WAIT_MS);
      this.waiting.set(phone, () => {
        clearTimeout(timer);
        resolve();
      });
    });
    this.waiting.delete(phone);
    const later = this.liveRequest(phone);
    if (!later) throw badRequest('no device is asking this phone for a pairing code', 'NO_CODE_REQUEST');
    return later;
  }

  /** A person types the code shown by the device into the phone. */
  async enter(account: Account, input: string): Promise<Linked> {
    const code = input.replace(/[\s-]/g, '').toUpperCase();
    if (code.length !== 8) throw badRequest('a pairing code has 8 characters', 'BAD_CODE');
    const request = await this.findRequest(account.phone);
    const wrapped = request.wrappedEphemeral;
    const unwrapKey = await derivePairingCodeKey(code, wrapped.subarray(0, 32));
    const companionEphemeral = aesDecryptCTR(wrapped.subarray(48, 80), unwrapKey, wrapped.subarray(32, 48));
    const ephemeral = Curve.generateKeyPair();
    const salt = randomBytes(32);
    const iv = randomBytes(16);
    const wrapKey = await derivePairingCodeKey(code, salt);
    const wrappedPrimary = Buffer.concat([salt, iv, aesEncryptCTR(ephemeral.public, wrapKey, iv)]);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new SimulatorError('DEVICE_SILENT', 504, 'the device did not answer the pairing code')),
        FINISH_WAIT_MS
      );
      const settle = <T>(then: (value: T) => void) => (value: T) => {
        clearTimeout(timer);
        then(value);
      };
      request.typed = { account, ephemeral, companionEphemeral, done: settle(resolve), failed: settle(reject) };
      request.connection.send(primaryHello(account, request.ref, wrappedPrimary));
    });
  }

  onCompanionFinish(connection: Connection, stanza: BinaryNode, finish: BinaryNode): BinaryNode {
    const phone = normalisePhone(finish.attrs.jid ?? '');
    const request = this.requests.get(phone);
    const candidate = this.world.pairing.candidateOf(connection);
    if (!request?.typed || request.connection !== connection || !candidate) return iqError(stanza, 400, 'bad-request');
    const { typed } = request;
    let secret: Buffer;
    try {
      secret = openKeyBundle({ ...request, typed }, candidate, requireBytes(finish, 'link_code_pairing_wrapped_key_bundle'));
    } catch {
      typed.failed(badRequest('the code is not the one the device shows', 'WRONG_CODE'));
      return iqError(stanza, 400, 'bad-request');
    }
    this.requests.delete(phone);
    // After the answer to this request: the device handles them in this order.
    setImmediate(() => this.world.pairing.link(typed.account, candidate, secret).then(typed.done, typed.failed));
    return iqResult(stanza);
  }

  /** Called for closed connections; one that has logged in never asked. */
  forget(connection: Connection): void {
    if (connection.device) return;
    for (const [phone, request] of this.requests) if (request.connection === connection) this.requests.delete(phone);
  }
}
