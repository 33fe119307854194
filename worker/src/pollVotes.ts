/** Opens a vote on a poll that this session sent: the key is in the poll itself; pure. */
import { createHash } from 'node:crypto'
import { decryptPollVote, proto } from 'baileys'

export interface Names {
  /** Number and LID of whoever made the poll; the voter's app used one of them, and does not say which. */
  readonly creators: readonly string[]
  readonly voters: readonly string[]
}

const optionsOf = (poll: proto.IMessage): string[] => {
  const found = poll.pollCreationMessage ?? poll.pollCreationMessageV2 ?? poll.pollCreationMessageV3
  return (found?.options ?? []).map(option => option.optionName ?? '')
}

/** The names of the options chosen (none: the vote was taken back); undefined if it cannot be opened. */
export const openVote = (
  update: proto.Message.IPollUpdateMessage,
  poll: proto.IMessage | undefined,
  { creators, voters }: Names,
): string[] | undefined => {
  const secret = poll?.messageContextInfo?.messageSecret
  const pollMsgId = update.pollCreationMessageKey?.id
  if (poll === undefined || !secret?.length || !pollMsgId || !update.vote) return undefined
  const byHash = new Map(optionsOf(poll).map(name => [createHash('sha256').update(name).digest('hex'), name]))
  for (const pollCreatorJid of creators) {
    for (const voterJid of voters) {
      try {
        const vote = decryptPollVote(update.vote, { pollCreatorJid, pollMsgId, pollEncKey: secret, voterJid })
        return vote.selectedOptions.flatMap(hash => byHash.get(Buffer.from(hash).toString('hex')) ?? [])
      } catch {
        // Not under these names.
      }
    }
  }
  return undefined
}
