/** Small helpers to build and read stanzas. */
import { getBinaryNodeChild, type BinaryNode } from 'baileys';

/** The server itself: a jid without user. */
export const SERVER_JID = '@s.whatsapp.net';

export type Attributes = Record<string, string | undefined>;

export const node = (tag: string, attrs: Attributes = {}, content?: BinaryNode['content']): BinaryNode => {
  const clean: Record<string, string> = {};
  for (const [name, value] of Object.entries(attrs)) if (value !== undefined) clean[name] = value;
  return content === undefined ? { tag, attrs: clean } : { tag, attrs: clean, content };
};

export const iqResult = (request: BinaryNode, content?: BinaryNode[]): BinaryNode =>
  node('iq', { from: SERVER_JID, type: 'result', id: request.attrs.id }, content);

export const iqError = (request: BinaryNode, code: number, text: string): BinaryNode =>
  node('iq', { from: SERVER_JID, type: 'error', id: request.attrs.id }, [node('error', { code: String(code), text })]);

export const children = (parent: BinaryNode | undefined): BinaryNode[] => (Array.isArray(parent?.content) ? parent.content : []);

/** Content as bytes: the codec gives text for some short values. */
export const bytesOf = (parent: BinaryNode | undefined): Buffer | undefined => {
  const content = parent?.content;
  if (content instanceof Uint8Array) return Buffer.from(content);
  return typeof content === 'string' ? Buffer.from(content) : undefined;
};

export const childBytes = (parent: BinaryNode | undefined, tag: string): Buffer | undefined =>
  parent ? bytesOf(getBinaryNodeChild(parent, tag)) : undefined;

export const requireBytes = (parent: BinaryNode | undefined, tag: string): Buffer => {
  const bytes = childBytes(parent, tag);
  if (!bytes) throw new Error(`<${tag}> is missing in <${parent?.tag ?? 'nothing'}>`);
  return bytes;
};

export const unixNow = (): string => String(Math.floor(Date.now() / 1000));
