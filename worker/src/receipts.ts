/** What a receipt says about messages of ours: read from the stanza itself, because Baileys acknowledges it at once; pure. */
import {
  areJidsSameUser,
  getBinaryNodeChildren,
  getStatusFromReceiptType,
  isJidBroadcast,
  isJidGroup,
  isJidNewsletter,
  jidNormalizedUser,
  proto,
  type BinaryNode,
  type Contact,
} from 'baileys'

const { Status } = proto.WebMessageInfo
const STATUS_WORDS: Readonly<Record<number, string>> = {
  [Status.DELIVERY_ACK]: 'delivered',
  [Status.READ]: 'read',
  [Status.PLAYED]: 'played',
}

export type Me = Pick<Contact, 'id' | 'lid'>

export interface MessageStatus {
  readonly waMessageId: string
  readonly status: string
  readonly to: string
}

/** Chats we take no part in. */
export const ignoredJid = (jid: string): boolean => Boolean(isJidBroadcast(jid) || isJidNewsletter(jid))

const idsOf = ({ attrs, content }: BinaryNode): string[] => {
  const list = Array.isArray(content) ? content[0] : undefined
  const others = list ? getBinaryNodeChildren(list, 'item').map(item => item.attrs['id']) : []
  return [attrs['id'], ...others].flatMap(id => id || [])
}

export const readReceipt = (node: BinaryNode, me: Me | undefined): MessageStatus[] => {
  const { from, participant, recipient, type } = node.attrs
  const status = STATUS_WORDS[getStatusFromReceiptType(type) ?? -1]
  // With a recipient it is about a message that someone else sent, read on another device of ours.
  if (status === undefined || !from || recipient || ignoredJid(from)) return []
  // Groups: one receipt per member.
  const to = isJidGroup(from) ? participant : from
  // Receipts of our own other devices, as for the message to itself, say nothing about a recipient.
  if (!to || areJidsSameUser(to, me?.id) || areJidsSameUser(to, me?.lid)) return []
  return idsOf(node).map(waMessageId => ({ waMessageId, status, to: jidNormalizedUser(to) }))
}
