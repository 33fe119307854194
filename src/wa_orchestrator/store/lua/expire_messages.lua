-- uses: shared_messages
-- Messages whose time is over, unless a worker has them: those may be on their way.
-- ARGV {now, today, keepMs, limit}   RETURNS {expired}
local expired = 0
for _, id in ipairs(redis.call('ZRANGE', K.messages_expiring(), '-inf', A.now, 'BYSCORE', 'LIMIT', 0, A.limit)) do
  local state = message_get(id, 'state')
  if state == '' or ENDED[state] then
    redis.call('ZREM', K.messages_expiring(), id)
  elseif state == 'claimed' then
    redis.call('ZADD', K.messages_expiring(), A.now + 5000, id)
  else
    finish(id, 'expired', 'EXPIRED')
    expired = expired + 1
  end
end
return reply({expired = expired})
