-- The first waiting notices, for the one sender that may write now.
-- ARGV {now, owner, leaseMs, most}
-- RETURNS {notices[], leftOut, failures, waitMs}: without notices, waitMs says when to ask again (0: none wait)
local waiting = redis.call('LLEN', K.alerts_outbox())
if waiting == 0 then return reply({notices = {}, leftOut = 0, failures = 0, waitMs = 0}) end
local channel = redis.call('HMGET', K.alerts_channel(), 'notBefore', 'owner', 'leaseUntil', 'leftOut', 'failures')
local wait = (tonumber(channel[1]) or 0) - A.now
if channel[2] and channel[2] ~= A.owner then wait = math.max(wait, (tonumber(channel[3]) or 0) - A.now) end
if wait > 0 then return reply({notices = {}, leftOut = 0, failures = 0, waitMs = wait}) end
redis.call('HSET', K.alerts_channel(), 'owner', A.owner, 'leaseUntil', A.now + A.leaseMs)
return reply({notices = redis.call('LRANGE', K.alerts_outbox(), 0, A.most - 1), leftOut = tonumber(channel[4]) or 0,
  failures = tonumber(channel[5]) or 0, waitMs = 0})
