/** Turns a request to a phone ("send this") into the message that a phone would encrypt. */
import { proto } from 'baileys';
import { badRequest } from '../errors.ts';
import type { Account } from '../state/model.ts';
import { inboxKey } from '../state/model.ts';
import type { World } from '../world.ts';
import { encryptMedia } from './media.ts';

export interface SendRequest {
  to: string;
  text?: string;
  caption?: string;
  image?: { base64: string; mimetype?: string };
  reaction?: { id: string; emoji: string };
  quotedId?: string;
}

export interface Composed {
  kind: string;
  type: string;
  message: proto.IMessage;
}

/** The quoted message as far as the phone knows it: received from, or sent to, this chat. */
const quote = (account: Account, chat: string, id: string): proto.IContextInfo => {
  const received = account.inbox.get(inboxKey(chat, id));
  const participant = received ? `${chat}@s.whatsapp.net` : account.jid();
  return { stanzaId: id, participant, quotedMessage: { conversation: received?.text ?? '' } };
};

const imageMessage = async (world: World, image: NonNullable<SendRequest['image']>, caption: string | undefined): Promise<proto.Message.IImageMessage> => {
  const plain = typeof image.base64 === 'string' ? Buffer.from(image.base64, 'base64') : Buffer.alloc(0);
  if (!plain.length) throw badRequest('image.base64 is empty');
  const { mediaKey, file, fileSha256 } = await encryptMedia(plain, 'image');
  const { directPath, sha256 } = await world.blobs.storeBytes(file);
  return {
    url: `https://${world.mediaHost()}${directPath}`,
    directPath,
    mediaKey,
    mimetype: image.mimetype ?? 'image/jpeg',
    fileSha256,
    fileEncSha256: sha256,
    fileLength: plain.length,
    mediaKeyTimestamp: Math.floor(Date.now() / 1000),
    ...(caption ? { caption } : {})
  };
};

export const compose = async (world: World, account: Account, chat: string, request: SendRequest): Promise<Composed> => {
  const contextInfo = request.quotedId ? quote(account, chat, request.quotedId) : undefined;
  if (request.reaction) {
    const { id, emoji } = request.reaction;
    // A message that this phone received was sent by the chat's other side.
    const fromMe = !account.inbox.has(inboxKey(chat, id));
    const key = { remoteJid: `${chat}@s.whatsapp.net`, fromMe, id };
    return { kind: 'reaction', type: 'reaction', message: { reactionMessage: { key, text: emoji, senderTimestampMs: Date.now() } } };
  }
  if (request.image) {
    const image = await imageMessage(world, request.image, request.caption ?? request.text);
    return { kind: 'image', type: 'media', message: { imageMessage: { ...image, ...(contextInfo ? { contextInfo } : {}) } } };
  }
  if (typeof request.text !== 'string' || !request.text) throw badRequest('say what to send: text, image or reaction');
  const { text } = request;
  if (contextInfo) return { kind: 'text', type: 'text', message: { extendedTextMessage: { text, contextInfo } } };
  return { kind: 'text', type: 'text', message: { conversation: text } };
};
