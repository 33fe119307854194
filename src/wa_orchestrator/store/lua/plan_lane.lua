-- uses: shared_messages
-- Writes a lane's plan. A day that goes on keeps its count, however often and in whatever time zone it is planned.
-- ARGV {now, lane, version, plan{daily, perMinute, minDelay, maxDelay, burstCount, burstPause, opensAt, closesAt, nextOpensAt, dayKey,
--       dayStartsAt, dayEndsAt, replanAt}}
-- version: of the lane before its limits were read; when they changed meanwhile nothing is written and the lane stays due.
-- RETURNS {newDay, stale}
local key, plan = K.lane(A.lane), A.plan
local L = redis.call('HMGET', key, 'planVersion', 'dayCount', 'dayStartsAt', 'dayEndsAt', 'dayBefore', 'carry',
  'daily', 'perMinute', 'maxDelay', 'burstCount', 'burstPause')
if (L[1] or '') ~= A.version then
  redis.call('ZADD', K.lanes_due(), A.now, A.lane)
  return reply({newDay = false, stale = true})
end

-- under other limits than those it was released with, nothing more leaves the outbox
local function differs(old, new)
  if not given(new) then return (old or '') ~= '' end
  return tonumber(old) ~= tonumber(new)
end
if L[3] and (differs(L[7], plan.daily) or differs(L[8], plan.perMinute) or differs(L[9], plan.maxDelay) or
    differs(L[10], plan.burstCount) or differs(L[11], plan.burstPause)) then
  for _, id in ipairs(redis.call('SMEMBERS', K.lane_inflight(A.lane))) do
    if message_get(id, 'state') == 'outbox' and not may_have_been_sent(id) then back_into_queue(id, false) end
  end
end

local count = tonumber(redis.call('HGET', key, 'dayCount')) or 0
local starts, ends, before = tonumber(L[3]) or 0, tonumber(L[4]) or 0, tonumber(L[5]) or 0
local new_day = A.now >= ends
if new_day then
  before = count
  -- what is under way now may be sent today, whenever it was released
  count = (tonumber(L[6]) or 0) + redis.call('SCARD', K.lane_inflight(A.lane))
  -- in another zone the new day may have begun before the old one ended
  if plan.dayStartsAt < ends then count = count + before end
  redis.call('HDEL', key, 'carry')
elseif plan.dayStartsAt < starts then
  -- another zone: its day reaches back into what was the day before
  count, before = count + before, 0
end
redis.call('HSET', key, 'dayCount', count, 'dayBefore', before)
for name, value in pairs(plan) do
  if given(value) then redis.call('HSET', key, name, value) else redis.call('HDEL', key, name) end
end

-- the distance to the next message follows the new delays; a pause after a burst stays
local D = redis.call('HMGET', key, 'lastAt', 'lastDelay', 'nextDue', 'pausedUntil')
local last, owed = tonumber(D[1]) or 0, tonumber(D[2]) or 0
if plan.maxDelay == 0 and (tonumber(L[9]) or 0) > 0 and not D[4] then
  redis.call('HSET', key, 'lastDelay', 0, 'nextDue', last)
elseif last > 0 and owed < plan.minDelay then
  redis.call('HSET', key, 'lastDelay', plan.minDelay, 'nextDue', math.max(tonumber(D[3]) or 0, last + plan.minDelay))
end
redis.call('PERSIST', key)
lane_due(A.lane)
return reply({newDay = new_day, stale = false})
