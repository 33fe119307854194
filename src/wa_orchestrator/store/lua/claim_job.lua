-- Takes a scheduled job if it is due. However many were missed, it is done once; a run whose process died is done again, three times
-- at most.
-- ARGV {now, job, schedule, nextDue, token, claimMs}   nextDue: the first moment after now
-- RETURNS {claimed, nextDue}
local MOST_TRIES = 3
local key = K.job(A.job)
local job = redis.call('HMGET', key, 'schedule', 'nextDue', 'token', 'claimedUntil', 'tries')
if job[1] ~= A.schedule then
  -- new, or planned otherwise than before: it begins with the next due time
  redis.call('HSET', key, 'schedule', A.schedule, 'nextDue', A.nextDue)
  job[2] = A.nextDue
end
-- reckoned by a clock that was ahead and was set back: nothing is due later than the first moment after now
if (tonumber(job[2]) or 0) > A.nextDue then
  redis.call('HSET', key, 'nextDue', A.nextDue)
  job[2] = A.nextDue
end
if (tonumber(job[4]) or 0) > A.now + A.claimMs then
  job[4] = A.now + A.claimMs
  redis.call('HSET', key, 'claimedUntil', job[4])
end
local running = given(job[3] or nil)
if running and (tonumber(job[4]) or 0) > A.now then return reply({claimed = false, nextDue = tonumber(job[2])}) end
local tries = running and (tonumber(job[5]) or 1) or 0
local due = (tonumber(job[2]) or 0) <= A.now
if running and not due and tries >= MOST_TRIES then
  redis.call('HDEL', key, 'token', 'claimedUntil')
  redis.call('HSET', key, 'lastEndedAt', A.now, 'lastError', 'INTERRUPTED')
  return reply({claimed = false, nextDue = tonumber(job[2])})
end
if not due and not running then return reply({claimed = false, nextDue = tonumber(job[2])}) end
redis.call('HSET', key, 'token', A.token, 'claimedUntil', A.now + A.claimMs, 'tries', due and 1 or tries + 1,
  'lastStartedAt', A.now, 'nextDue', A.nextDue)
return reply({claimed = true, nextDue = A.nextDue})
