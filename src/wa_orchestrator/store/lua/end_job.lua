-- Renews the claim of a job, or ends it; only if it is still ours.
-- ARGV {now, job, token, claimMs?, ended?, error?}   RETURNS {held}
local key = K.job(A.job)
if redis.call('HGET', key, 'token') ~= A.token then return reply({held = false}) end
if A.ended then
  redis.call('HDEL', key, 'token', 'claimedUntil')
  redis.call('HSET', key, 'lastEndedAt', A.now, 'lastError', given(A.error) and A.error or '')
else
  redis.call('HSET', key, 'claimedUntil', A.now + A.claimMs)
end
return reply({held = true})
