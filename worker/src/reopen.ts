/** Makes again, from what was kept of an opened message, the message that Baileys would have handed over; pure. */
import { cleanMessage, decodeMessageNode, proto, unpadRandomMax16, type WAMessage } from 'baileys'
import type { Leftover } from './opened.ts'
import type { Me } from './receipts.ts'

export const reopen = ({ attrs, plaintext }: Pick<Leftover, 'attrs' | 'plaintext'>, me: Me): WAMessage => {
  const { fullMessage } = decodeMessageNode({ tag: 'message', attrs }, me.id, me.lid ?? '')
  const message = proto.Message.decode(unpadRandomMax16(plaintext))
  fullMessage.message = message.deviceSentMessage?.message ?? message
  cleanMessage(fullMessage, me.id, me.lid ?? '')
  return fullMessage
}
