/** A phone's vote on a poll that it received: encrypted with the poll's own secret, as the real app does. */
import { createCipheriv, createHash, createHmac, randomBytes } from 'node:crypto';
import { proto } from 'baileys';
import { badRequest } from '../errors.ts';
import { inboxKey, type Account } from '../state/model.ts';

const hmac = (key: Uint8Array, data: Uint8Array): Buffer => createHmac('sha256', key).update(data).digest();

export const encryptVote = (account: Account, chat: string, { id, options }: { id: string; options: string[] }): proto.Message.IPollUpdateMessage => {
  const secret = account.inbox.get(inboxKey(chat, id))?.pollSecret;
  if (!secret) throw badRequest(`${id} is no poll that this phone received`, 'NO_SUCH_MESSAGE');
  const [creator, voter] = [`${chat}@s.whatsapp.net`, account.jid()];
  const purpose = Buffer.concat([Buffer.from(id + creator + voter + 'Poll Vote'), Buffer.from([1])]);
  const key = hmac(hmac(new Uint8Array(32), Buffer.from(secret, 'base64')), purpose);
  const selectedOptions = options.map(name => createHash('sha256').update(name).digest());
  const iv = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from(`${id}\0${voter}`));
  const plain = proto.Message.PollVoteMessage.encode({ selectedOptions }).finish();
  const encPayload = Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
  return {
    pollCreationMessageKey: { remoteJid: creator, fromMe: false, id },
    vote: { encPayload, encIv: iv },
    senderTimestampMs: Date.now()
  };
};
