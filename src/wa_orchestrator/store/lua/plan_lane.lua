-- uses: shared_messages
-- Writes a lane's plan. A new day starts its count at zero; the same day keeps it, however often it is planned.
-- ARGV {now, lane, plan{daily, perMinute, minDelay, maxDelay, burstCount, burstPause, opensAt, closesAt, dayKey, dayEndsAt, replanAt}}
-- RETURNS {newDay}
local key = K.lane(A.lane)
local new_day = redis.call('HGET', key, 'dayKey') ~= A.plan.dayKey
if new_day then redis.call('HSET', key, 'dayCount', 0) end
for name, value in pairs(A.plan) do
  if given(value) then redis.call('HSET', key, name, value) else redis.call('HDEL', key, name) end
end
-- with shorter delays the next one need not wait for the old, long delay
local last, longest = tonumber(redis.call('HGET', key, 'lastAt')) or 0, tonumber(A.plan.maxDelay)
local due = tonumber(redis.call('HGET', key, 'nextDue')) or 0
if longest == 0 and due > last and redis.call('HGET', key, 'pausedUntil') == false then redis.call('HSET', key, 'nextDue', last) end
lane_due(A.lane)
return reply({newDay = new_day})
