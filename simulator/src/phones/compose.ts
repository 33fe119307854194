/** Turns a request to a phone ("send this") into the message that a phone would encrypt. */
import { proto } from 'baileys';
import { badRequest } from '../errors.ts';
import type { Account } from '../state/model.ts';
import { inboxKey } from '../state/model.ts';
import type { World } from '../world.ts';
import { encryptMedia } from './media.ts';
import { encryptVote } from './vote.ts';

export interface MediaRequest {
  base64: string;
  mimetype?: string;
  fileName?: string;
  seconds?: number;
  /** Tells another hash than that of the file, as a message that was tampered with would. */
  wrongHash?: boolean;
}

export const MEDIA_REQUESTS = ['image', 'video', 'audio', 'voice', 'document', 'sticker'] as const;
export type MediaRequestKind = (typeof MEDIA_REQUESTS)[number];

export interface SendRequest extends Partial<Record<MediaRequestKind, MediaRequest>> {
  to: string;
  /** Sends under the phone's LID instead of its number. */
  byLid?: boolean;
  text?: string;
  caption?: string;
  location?: { latitude: number; longitude: number; name?: string; address?: string };
  contact?: { name: string; vcard: string };
  reaction?: { id: string; emoji: string };
  edit?: { id: string; text: string };
  delete?: { id: string };
  vote?: { id: string; options: string[] };
  quotedId?: string;
}

export interface Composed {
  kind: string;
  type: string;
  message: proto.IMessage;
  /** The stanza's own mark of an edit or a deletion. */
  edit?: string;
}

const EDITED = '1';
const REVOKED_BY_SENDER = '7';

const DEFAULT_TYPES: Record<MediaRequestKind, string> = {
  image: 'image/jpeg',
  video: 'video/mp4',
  audio: 'audio/mpeg',
  voice: 'audio/ogg; codecs=opus',
  document: 'application/octet-stream',
  sticker: 'image/webp'
};

/** The quoted message as far as the phone knows it: received from, or sent to, this chat. */
const quote = (account: Account, chat: string, id: string): proto.IContextInfo => {
  const received = account.inbox.get(inboxKey(chat, id));
  const participant = received ? `${chat}@s.whatsapp.net` : account.jid();
  return { stanzaId: id, participant, quotedMessage: { conversation: received?.text ?? '' } };
};

const mediaMessage = async (world: World, kind: MediaRequestKind, media: MediaRequest): Promise<proto.Message.IImageMessage> => {
  const plain = typeof media.base64 === 'string' ? Buffer.from(media.base64, 'base64') : Buffer.alloc(0);
  if (!plain.length) throw badRequest(`${kind}.base64 is empty`);
  const { mediaKey, file, fileSha256 } = await encryptMedia(plain, kind === 'voice' ? 'audio' : kind);
  const { directPath, sha256 } = await world.blobs.storeBytes(file);
  return {
    url: `https://${world.mediaHost()}${directPath}`,
    directPath,
    mediaKey,
    mimetype: media.mimetype ?? DEFAULT_TYPES[kind],
    fileSha256: media.wrongHash ? Buffer.alloc(32, 7) : fileSha256,
    fileEncSha256: sha256,
    fileLength: plain.length,
    mediaKeyTimestamp: Math.floor(Date.now() / 1000)
  };
};

const composeMedia = async (
  world: World,
  kind: MediaRequestKind,
  request: SendRequest,
  context: { contextInfo?: proto.IContextInfo }
): Promise<Composed> => {
  const media = request[kind];
  if (!media) throw badRequest(`${kind} is missing`);
  const caption = request.caption ?? request.text;
  const common = { ...(await mediaMessage(world, kind, media)), ...context };
  const captioned = { ...common, ...(caption ? { caption } : {}) };
  const timed = media.seconds === undefined ? {} : { seconds: media.seconds };
  const messages: Record<MediaRequestKind, proto.IMessage> = {
    image: { imageMessage: captioned },
    video: { videoMessage: { ...captioned, ...timed } },
    audio: { audioMessage: { ...common, ...timed } },
    voice: { audioMessage: { ...common, ...timed, ptt: true } },
    document: { documentMessage: { ...captioned, ...(media.fileName ? { fileName: media.fileName } : {}) } },
    sticker: { stickerMessage: common }
  };
  return { kind, type: 'media', message: messages[kind] };
};

const keyOf = (account: Account, chat: string, id: string): proto.IMessageKey => ({
  remoteJid: `${chat}@s.whatsapp.net`,
  // A message that this phone received was sent by the chat's other side.
  fromMe: !account.inbox.has(inboxKey(chat, id)),
  id
});

/** About another message of the chat: reaction, edit, deletion, vote. */
const composeAbout = (account: Account, chat: string, request: SendRequest): Composed | undefined => {
  const { reaction, edit, delete: deletion, vote } = request;
  if (reaction) {
    const key = keyOf(account, chat, reaction.id);
    return { kind: 'reaction', type: 'reaction', message: { reactionMessage: { key, text: reaction.emoji, senderTimestampMs: Date.now() } } };
  }
  if (edit) {
    const type = proto.Message.ProtocolMessage.Type.MESSAGE_EDIT;
    const protocolMessage = { key: keyOf(account, chat, edit.id), type, editedMessage: { conversation: edit.text }, timestampMs: Date.now() };
    return { kind: 'edit', type: 'text', message: { protocolMessage }, edit: EDITED };
  }
  if (deletion) {
    const type = proto.Message.ProtocolMessage.Type.REVOKE;
    return { kind: 'delete', type: 'text', message: { protocolMessage: { key: keyOf(account, chat, deletion.id), type } }, edit: REVOKED_BY_SENDER };
  }
  return vote ? { kind: 'vote', type: 'poll', message: { pollUpdateMessage: encryptVote(account, chat, vote) } } : undefined;
};

export const compose = async (world: World, account: Account, chat: string, request: SendRequest): Promise<Composed> => {
  const about = composeAbout(account, chat, request);
  if (about) return about;
  const context = request.quotedId ? { contextInfo: quote(account, chat, request.quotedId) } : {};
  const media = MEDIA_REQUESTS.find(kind => request[kind] !== undefined);
  if (media) return composeMedia(world, media, request, context);
  if (request.location) {
    const { latitude, longitude, ...named } = request.location;
    const locationMessage = { degreesLatitude: latitude, degreesLongitude: longitude, ...named, ...context };
    return { kind: 'location', type: 'media', message: { locationMessage } };
  }
  if (request.contact) {
    const { name, vcard } = request.contact;
    return { kind: 'contact', type: 'media', message: { contactMessage: { displayName: name, vcard, ...context } } };
  }
  if (typeof request.text !== 'string' || !request.text) {
    throw badRequest(`say what to send: text, ${MEDIA_REQUESTS.join(', ')}, location, contact, reaction, edit, delete or vote`);
  }
  const { text } = request;
  if (request.quotedId) return { kind: 'text', type: 'text', message: { extendedTextMessage: { text, ...context } } };
  return { kind: 'text', type: 'text', message: { conversation: text } };
};
