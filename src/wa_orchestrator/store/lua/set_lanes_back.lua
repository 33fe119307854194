-- uses: shared_messages
-- The clock was set back: what these lanes noted while it was ahead is moved to when it really was. Repeating it changes nothing.
-- What was sent stays counted: the next plan adds the sends of the days that never were to those of today.
-- ARGV {now, backMs, lanes[]}   RETURNS {moved}
local function moved_back(at) return math.max(0, math.min(A.now, at - A.backMs)) end

local function moments(lane)
  local key = K.lane(lane)
  local L = redis.call('HMGET', key, 'lastAt', 'lastDelay', 'nextDue', 'pausedUntil', 'blockedUntil', 'blockedAt', 'slowSince')
  local last, owed, due = tonumber(L[1]) or 0, tonumber(L[2]) or 0, tonumber(L[3]) or 0
  if last > A.now then
    last = moved_back(last)
    redis.call('HSET', key, 'lastAt', last)
  end
  -- the next one is due a delay after the last one, whatever the clock showed
  if due > A.now then
    due = math.min(due, last + owed)
    redis.call('HSET', key, 'nextDue', due)
  end
  if L[4] and tonumber(L[4]) > due then redis.call('HSET', key, 'pausedUntil', due) end
  local blocked, since = tonumber(L[5]) or 0, tonumber(L[6])
  if since and since > A.now then
    redis.call('HSET', key, 'blockedUntil', blocked - A.backMs, 'blockedAt', moved_back(since))
  end
  if L[7] and tonumber(L[7]) > A.now then redis.call('HSET', key, 'slowSince', moved_back(tonumber(L[7]))) end
end

local function minute(lane)
  local times, changed = redis.call('LRANGE', K.lane_minute(lane), 0, -1), false
  for i, at in ipairs(times) do
    times[i] = tonumber(at)
    if times[i] > A.now then times[i], changed = moved_back(times[i]), true end
  end
  if not changed then return end
  table.sort(times, function(a, b) return a > b end)
  redis.call('DEL', K.lane_minute(lane))
  for _, at in ipairs(times) do redis.call('RPUSH', K.lane_minute(lane), at) end
  redis.call('PEXPIRE', K.lane_minute(lane), 120000)
end

for _, lane in ipairs(A.lanes) do
  moments(lane)
  minute(lane)
  local first = tonumber(redis.call('HGET', K.phone(lane), 'firstConnectedAt')) or 0
  if first > A.now then redis.call('HSET', K.phone(lane), 'firstConnectedAt', moved_back(first)) end
  plan_anew(lane)
end
return reply({moved = #A.lanes})
