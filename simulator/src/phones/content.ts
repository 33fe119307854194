/** What a phone's screen would show of a decrypted message. */
import { normalizeMessageContent, proto } from 'baileys';
import type { BlobStore } from '../media/blobs.ts';
import type { InboxEntry } from '../state/records.ts';
import { inspectMedia } from './media.ts';

export type Shown = Pick<
  InboxEntry,
  'kind' | 'text' | 'caption' | 'quotedId' | 'mentions' | 'media' | 'location' | 'contact' | 'contacts' | 'poll' | 'pollSecret' | 'reaction'
>;

const MEDIA_FIELDS = [
  ['imageMessage', 'image'],
  ['videoMessage', 'video'],
  ['audioMessage', 'audio'],
  ['documentMessage', 'document'],
  ['stickerMessage', 'sticker']
] as const;

const contextOf = (message: proto.IMessage): proto.IContextInfo | null | undefined => {
  for (const value of Object.values(message)) {
    if (value && typeof value === 'object' && 'contextInfo' in value) return (value as { contextInfo?: proto.IContextInfo }).contextInfo;
  }
  return undefined;
};

const contextPart = (message: proto.IMessage): Partial<Shown> => {
  const context = contextOf(message);
  return {
    ...(context?.stanzaId ? { quotedId: context.stanzaId } : {}),
    ...(context?.mentionedJid?.length ? { mentions: context.mentionedJid } : {})
  };
};

const mediaPart = async (message: proto.IMessage, blobs: BlobStore): Promise<Shown | undefined> => {
  for (const [field, kind] of MEDIA_FIELDS) {
    const media = message[field];
    if (!media) continue;
    const caption = 'caption' in media ? media.caption : undefined;
    return { kind, text: caption ?? null, ...(caption ? { caption } : {}), media: await inspectMedia(blobs, media, kind) };
  }
  return undefined;
};

const locationPart = ({ locationMessage: location }: proto.IMessage): Shown | undefined =>
  location
    ? {
        kind: 'location',
        text: null,
        location: {
          latitude: location.degreesLatitude ?? 0,
          longitude: location.degreesLongitude ?? 0,
          ...(location.name ? { name: location.name } : {}),
          ...(location.address ? { address: location.address } : {})
        }
      }
    : undefined;

const contactPart = (message: proto.IMessage): Shown | undefined => {
  const shared = message.contactMessage ? [message.contactMessage] : message.contactsArrayMessage?.contacts;
  if (!shared) return undefined;
  const contacts = shared.map(({ displayName, vcard }) => ({ name: displayName ?? '', vcard: vcard ?? '' }));
  return { kind: 'contact', text: null, ...(contacts[0] ? { contact: contacts[0] } : {}), contacts };
};

const pollPart = (message: proto.IMessage): Shown | undefined => {
  const poll = message.pollCreationMessageV3 ?? message.pollCreationMessageV2 ?? message.pollCreationMessage;
  if (!poll) return undefined;
  const options = poll.options?.map(option => option.optionName ?? '') ?? [];
  const secret = message.messageContextInfo?.messageSecret;
  return {
    kind: 'poll',
    text: null,
    poll: { question: poll.name ?? '', options, selectable: poll.selectableOptionsCount ?? 0 },
    ...(secret?.length ? { pollSecret: Buffer.from(secret).toString('base64') } : {})
  };
};

const reactionPart = ({ reactionMessage: reaction }: proto.IMessage): Shown | undefined =>
  reaction ? { kind: 'reaction', text: reaction.text ?? '', reaction: { emoji: reaction.text ?? '', targetId: reaction.key?.id ?? '' } } : undefined;

const protocolPart = ({ protocolMessage: protocol }: proto.IMessage): Shown | undefined => {
  if (!protocol) return undefined;
  const revoked = protocol.type === proto.Message.ProtocolMessage.Type.REVOKE;
  const edited = protocol.editedMessage?.conversation ?? protocol.editedMessage?.extendedTextMessage?.text;
  return {
    kind: revoked ? 'revoke' : edited ? 'edit' : 'protocol',
    text: edited ?? null,
    ...(protocol.key?.id ? { quotedId: protocol.key.id } : {})
  };
};

export const showMessage = async (received: proto.IMessage, blobs: BlobStore): Promise<Shown> => {
  const message: proto.IMessage = normalizeMessageContent(received) ?? received;
  const text = message.conversation ?? message.extendedTextMessage?.text;
  const special =
    (await mediaPart(message, blobs)) ??
    locationPart(message) ??
    contactPart(message) ??
    pollPart(message) ??
    reactionPart(message) ??
    protocolPart(message);
  const shown = special ?? { kind: typeof text === 'string' ? 'text' : 'unknown', text: text ?? null };
  return { ...shown, ...contextPart(message) };
};
