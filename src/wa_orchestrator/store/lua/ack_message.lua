-- uses: shared_messages
-- WhatsApp has the message. That is a fact whoever tells it and however late, so it is never refused.
-- ARGV {now, today, keepMs, id, session, sentAt}   RETURNS {ok, repeated} | MESSAGE_NOT_FOUND
local m = redis.call('HMGET', K.message(A.id), 'state', 'lane', 'recipient', 'outboxOf')
-- a worker speaks for the messages it was given and for no other
if not m[1] or m[4] ~= A.session then return refuse('MESSAGE_NOT_FOUND') end
if RANK[m[1]] then
  take_out(A.id)
  return reply({ok = true, repeated = true})
end
local lane = m[2]
if lane ~= '' then
  -- the limits count real sends: the next one keeps its distance from this one
  local L = redis.call('HMGET', K.lane(lane), 'lastDelay', 'nextDue', 'maxDelay')
  if tonumber(L[3] or 0) > 0 then
    local due = A.now + (tonumber(L[1]) or 0)
    if due > (tonumber(L[2]) or 0) then redis.call('HSET', K.lane(lane), 'nextDue', due) end
    if redis.call('LLEN', K.lane_minute(lane)) > 0 then redis.call('LSET', K.lane_minute(lane), 0, A.now) end
    redis.call('HSET', K.lane(lane), 'lastAt', A.now)
  end
  lane_succeeded(lane)
end
take_out(A.id)
redis.call('ZREM', K.messages_dead(), A.id)
redis.call('HSET', K.message(A.id), 'state', 'sent', 'sentAt', A.sentAt, 'reason', '')
redis.call('PEXPIRE', K.message(A.id), A.keepMs)
redis.call('SET', K.recipient(m[3]), A.session, 'EX', 7776000)
count('sent')
publish(A.id, 'sent')
return reply({ok = true, repeated = false})
