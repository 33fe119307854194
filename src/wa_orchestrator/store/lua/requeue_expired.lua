-- uses: shared_messages
-- Leases that ran out: the worker died or hangs. The message goes back to the outbox and keeps its WhatsApp id.
-- ARGV {now, today, keepMs, limit}   RETURNS {requeued}
local requeued = 0
for _, id in ipairs(redis.call('ZRANGE', K.claims_expiring(), '-inf', A.now, 'BYSCORE', 'LIMIT', 0, A.limit)) do
  redis.call('ZREM', K.claims_expiring(), id)
  local m = redis.call('HMGET', K.message(id), 'state', 'outboxOf')
  if m[1] == 'claimed' then
    if redis.call('HINCRBY', K.message(id), 'tries', 1) >= TOO_MANY_TRIES then
      finish(id, 'failed', 'NO_ANSWER: no worker confirmed it, so it may or may not have been sent')
    elseif not session_exists(m[2]) then
      -- its lane finds another session of the phone, or says that there is none
      back_into_queue(id)
    else
      redis.call('HSET', K.message(id), 'state', 'outbox', 'outboxAt', A.now)
      redis.call('ZADD', K.session_outbox(m[2]), A.now, id)
      tell(id, 'lease_ended', 'the worker gave no answer')
      look_at_outbox(m[2], A.now + LOOK_AGAIN_MS)
      wake(m[2])
      requeued = requeued + 1
    end
  end
end
return reply({requeued = requeued})
