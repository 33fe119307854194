-- uses: shared_messages
-- Retried messages become claimable with time, not with an event: wakes the workers whose time has come.
-- ARGV {now, limit}   RETURNS {woken}
local due = redis.call('ZRANGE', K.outbox_retries(), '-inf', A.now, 'BYSCORE', 'LIMIT', 0, A.limit)
for _, session in ipairs(due) do
  redis.call('ZREM', K.outbox_retries(), session)
  wake(session)
end
return reply({woken = #due})
