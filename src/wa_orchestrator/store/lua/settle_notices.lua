-- What became of the notices that were claimed.
-- ARGV {now, owner, done, leftOut, problem, failures, notBefore, sent}
-- done: so many of the first are through (or can never be). RETURNS {settled}: false when another sender has taken over
if redis.call('HGET', K.alerts_channel(), 'owner') ~= A.owner then return reply({settled = false}) end
redis.call('HDEL', K.alerts_channel(), 'owner', 'leaseUntil')
redis.call('HSET', K.alerts_channel(), 'failures', A.failures, 'notBefore', A.notBefore)
if A.done > 0 then
  redis.call('LTRIM', K.alerts_outbox(), A.done, -1)
  redis.call('HINCRBY', K.alerts_channel(), 'leftOut', -A.leftOut)
end
if A.sent then redis.call('HSET', K.alerts_channel(), 'lastSentAt', A.now) end
if given(A.problem) then
  redis.call('HSET', K.alerts_channel(), 'problem', A.problem)
  redis.call('HSETNX', K.alerts_channel(), 'problemSince', A.now)
else
  redis.call('HDEL', K.alerts_channel(), 'problem', 'problemSince')
end
return reply({settled = true})
