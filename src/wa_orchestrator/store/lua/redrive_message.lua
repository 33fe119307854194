-- uses: shared_messages
-- Drives a failed message again, with the same WhatsApp id: should it have left after all, it is not doubled.
-- ARGV {now, today, keepMs, id}   RETURNS {state} | MESSAGE_NOT_FOUND | MESSAGE_NOT_FAILED | RECIPIENT_OPTED_OUT
local m = redis.call('HMGET', K.message(A.id), 'state', 'lane', 'recipient', 'priority', 'number', 'expiresAt')
if not m[1] then return refuse('MESSAGE_NOT_FOUND') end
if m[1] ~= 'failed' then return refuse('MESSAGE_NOT_FAILED', {state = m[1]}) end
if redis.call('HEXISTS', K.suppressed(), m[3]) == 1 then return refuse('RECIPIENT_OPTED_OUT') end
redis.call('ZREM', K.messages_dead(), A.id)
redis.call('SADD', K.recipient_waiting(m[3]), A.id)
redis.call('PERSIST', K.message(A.id))
-- its earlier end stays in its story
local before = redis.call('HMGET', K.message(A.id), 'failedAt', 'reason')
tell(A.id, 'failed', before[2], tonumber(before[1]))
redis.call('HDEL', K.message(A.id), 'attempts', 'tries', 'failedAt')
-- what the worker remembers about the number is asked anew
redis.call('HSET', K.message(A.id), 'reason', '', 'redriven', 1)
if m[6] then redis.call('ZADD', K.messages_expiring(), m[6], A.id) end
tell(A.id, 'driven_again', '')
if m[2] ~= '' then
  into_queue(A.id, m[2], m[3], tonumber(m[4]), tonumber(m[5]))
else
  redis.call('HSET', K.message(A.id), 'state', 'accepted')
  redis.call('ZADD', K.gateway_jobs(), job_score(A.now, tonumber(m[5])), A.id)
end
return reply({state = message_get(A.id, 'state')})
