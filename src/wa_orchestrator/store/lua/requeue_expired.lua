-- uses: shared_messages
-- Leases that ran out: the worker died or hangs. The message goes back to the outbox and keeps its WhatsApp id.
-- ARGV {now, today, keepMs, limit}   RETURNS {requeued}
local requeued = 0
for _, id in ipairs(redis.call('ZRANGE', K.claims_expiring(), '-inf', A.now, 'BYSCORE', 'LIMIT', 0, A.limit)) do
  if take_back(id, 'the worker gave no answer') then
    wake(message_get(id, 'outboxOf'))
    requeued = requeued + 1
  end
end
return reply({requeued = requeued})
