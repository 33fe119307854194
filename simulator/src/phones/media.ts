/** Media as a phone handles it: encrypt before upload, fetch and decrypt what was received. */
import { createCipheriv, createDecipheriv, createHash, createHmac, randomBytes } from 'node:crypto';
import { getMediaKeys, toNumber, type MediaType } from 'baileys';
import { messageOf } from '../errors.ts';
import type { BlobStore } from '../media/blobs.ts';
import type { MediaInfo } from '../state/records.ts';

const MAC_BYTES = 10;

type LongNumber = Parameters<typeof toNumber>[0];

/** The fields that all media messages have in common. */
export interface MediaMessage {
  mediaKey?: Uint8Array | null;
  directPath?: string | null;
  mimetype?: string | null;
  fileSha256?: Uint8Array | null;
  fileLength?: LongNumber;
  fileName?: string | null;
}

const macOf = (macKey: Uint8Array, iv: Uint8Array, ciphertext: Buffer): Buffer =>
  createHmac('sha256', macKey).update(iv).update(ciphertext).digest().subarray(0, MAC_BYTES);

export const encryptMedia = async (plain: Buffer, type: MediaType) => {
  const mediaKey = randomBytes(32);
  const { cipherKey, iv, macKey } = await getMediaKeys(mediaKey, type);
  if (!macKey) throw new Error('no MAC key');
  const cipher = createCipheriv('aes-256-cbc', cipherKey, iv);
  const ciphertext = Buffer.concat([cipher.update(plain), cipher.final()]);
  return {
    mediaKey,
    file: Buffer.concat([ciphertext, macOf(macKey, iv, ciphertext)]),
    fileSha256: createHash('sha256').update(plain).digest()
  };
};

const decryptMedia = async (file: Buffer, mediaKey: Uint8Array, type: MediaType): Promise<Buffer> => {
  const { cipherKey, iv, macKey } = await getMediaKeys(mediaKey, type);
  if (!macKey) throw new Error('no MAC key');
  const ciphertext = file.subarray(0, -MAC_BYTES);
  if (!macOf(macKey, iv, ciphertext).equals(file.subarray(-MAC_BYTES))) throw new Error('MAC of the file is wrong');
  const decipher = createDecipheriv('aes-256-cbc', cipherKey, iv);
  return Buffer.concat([decipher.update(ciphertext), decipher.final()]);
};

/** Size and hash of the plaintext as really received, or the reason why it could not be opened. */
export const inspectMedia = async (blobs: BlobStore, message: MediaMessage, type: MediaType): Promise<MediaInfo> => {
  const base = {
    mimetype: message.mimetype ?? 'application/octet-stream',
    ...(message.fileName ? { fileName: message.fileName } : {})
  };
  try {
    const file = message.directPath ? await blobs.read(message.directPath) : undefined;
    if (!file || !message.mediaKey) throw new Error('file is not on the media host');
    const plain = await decryptMedia(file, message.mediaKey, type);
    const sha256 = createHash('sha256').update(plain).digest();
    if (message.fileSha256?.length && !sha256.equals(message.fileSha256)) throw new Error('SHA-256 of the file is wrong');
    return { ...base, size: plain.length, sha256: sha256.toString('hex') };
  } catch (error) {
    return { ...base, size: toNumber(message.fileLength), sha256: '', error: messageOf(error) };
  }
};
