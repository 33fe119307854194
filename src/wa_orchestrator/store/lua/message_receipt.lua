-- uses: shared_messages shared_inbox
-- A receipt from WhatsApp: delivered, read, played, or an error after all. States only move forward.
-- ARGV {now, today, keepMs, inboxMs, id, session, status, at, error?}   RETURNS {outcome = moved | known | unknown}
local state = message_get(A.id, 'state')
if state == '' or message_get(A.id, 'outboxOf') ~= A.session then return reply({outcome = 'unknown'}) end
if A.status == 'error' then
  if state ~= 'sent' and state ~= 'claimed' then return reply({outcome = 'known'}) end
  lane_failed(message_get(A.id, 'lane'))
  finish(A.id, 'failed', given(A.error) and A.error or 'WA_REJECTED')
  return reply({outcome = 'moved'})
end
if (RANK[state] or 0) >= RANK[A.status] then return reply({outcome = 'known'}) end
if not RANK[state] then
  -- the receipt overtook the worker's own word that it was sent
  take_out(A.id, true)
  redis.call('ZREM', K.messages_dead(), A.id)
  redis.call('HSET', K.message(A.id), 'sentAt', A.at, 'reason', '')
  redis.call('PEXPIRE', K.message(A.id), A.keepMs)
  talked(message_get(A.id, 'recipient'), A.session)
  said_by_us(A.id, A.session, message_get(A.id, 'recipient'), A.at)
  local lane = message_get(A.id, 'lane')
  if lane ~= '' then lane_succeeded(lane) end
  count('sent')
end
redis.call('HSET', K.message(A.id), 'state', A.status, A.status .. 'At', A.at)
count(A.status)
publish(A.id, A.status)
return reply({outcome = 'moved'})
