-- uses: shared_messages
-- Takes every due lane and moves what it may send into the outbox of its session, counting it in the same step.
-- ARGV {now, today, keepMs, lanes, unpaced, chances[]}
-- lanes: how many at most; unpaced: how many may be under way without delays; chances: a random number per lane.
-- RETURNS {moved, looked, plan[]: lanes whose instants have passed}
local moved, plan = 0, {}
local woken = {}

local function connected(session) return session ~= '' and session_get(session, 'status') == 'connected' end

local function connected_session(lane)
  for _, id in ipairs(redis.call('SMEMBERS', K.phone_session(lane))) do
    if connected(id) then return id end
  end
  return nil
end

local function follow(id, lane)
  local m = redis.call('HMGET', K.message(id), 'recipient', 'priority', 'number')
  take_out(id)
  into_queue(id, lane, m[1], tonumber(m[2]), tonumber(m[3]))
end

-- The first message of the lane that can go now, and its session. What can never go is ended on the way.
local function choose(lane)
  local any
  for _, id in ipairs(redis.call('ZRANGE', K.queue(lane), 0, 19)) do
    local m = redis.call('HMGET', K.message(id), 'session', 'expiresAt')
    local pinned = m[1] or ''
    if m[2] and tonumber(m[2]) <= A.now then
      finish(id, 'expired', 'EXPIRED')
    elseif pinned ~= '' and not session_exists(pinned) then
      finish(id, 'failed', 'SESSION_DELETED')
    elseif pinned ~= '' and session_get(pinned, 'phone') ~= lane then
      -- the session was linked to another phone meanwhile: its messages and their pacing follow it
      follow(id, session_get(pinned, 'phone'))
    elseif pinned ~= '' then
      if connected(pinned) then return id, pinned end
    else
      if any == nil then any = connected_session(lane) or false end
      if any then return id, any end
    end
  end
  return nil
end

local function release(lane, id, session)
  redis.call('ZREM', K.queue(lane), id)
  redis.call('SREM', K.queue_size(lane), id)
  redis.call('SADD', K.lane_inflight(lane), id)
  redis.call('HSET', K.message(id), 'state', 'outbox', 'outboxAt', A.now, 'outboxOf', session)
  redis.call('ZADD', K.session_outbox(session), A.now, id)
  woken[session] = true
  moved = moved + 1
end

-- Moves what may go now; returns when to look again, or nil when something else will wake the lane.
local function serve(lane, chance)
  local key = K.lane(lane)
  local L = redis.call('HMGET', key, 'replanAt', 'blockedUntil', 'opensAt', 'daily', 'dayCount', 'dayEndsAt', 'perMinute', 'minDelay',
    'maxDelay', 'nextDue', 'burstCount', 'burstPause', 'burst', 'lastAt', 'slow')
  local replan, blocked, opens = tonumber(L[1]) or 0, tonumber(L[2]) or 0, tonumber(L[3]) or 0
  if A.now >= replan then plan[#plan + 1] = lane; return A.now + 1000 end
  if redis.call('ZCARD', K.queue(lane)) == 0 then return nil end
  if blocked > A.now then return blocked end
  if opens > A.now then return opens end
  local daily, day_count, day_ends = tonumber(L[4]), tonumber(L[5]) or 0, tonumber(L[6])
  local per_minute, low, high = tonumber(L[7]), tonumber(L[8]), tonumber(L[9])
  local due = tonumber(L[10]) or 0
  if due > A.now then return due end
  local burst_count, burst_pause, burst, last = tonumber(L[11]), tonumber(L[12]) or 0, tonumber(L[13]) or 0, tonumber(L[14]) or 0
  local slow = tonumber(L[15]) or 1
  -- with delays one message at a time is under way: what waits in an outbox while a worker is away must not leave in a rush
  local most = high > 0 and 1 or A.unpaced
  local under_way = redis.call('SCARD', K.lane_inflight(lane))
  local again = nil
  while under_way < most do
    if daily and day_count >= daily then again = day_ends; break end
    if per_minute then
      local oldest = per_minute > 0 and tonumber(redis.call('LINDEX', K.lane_minute(lane), per_minute - 1)) or nil
      if per_minute == 0 then again = replan; break end
      if oldest and oldest > A.now - 60000 then again = oldest + 60000; break end
    end
    local id, session = choose(lane)
    if not id then break end
    release(lane, id, session)
    under_way, day_count = under_way + 1, day_count + 1
    if per_minute then
      redis.call('LPUSH', K.lane_minute(lane), A.now)
      redis.call('LTRIM', K.lane_minute(lane), 0, per_minute - 1)
      redis.call('PEXPIRE', K.lane_minute(lane), 120000)
    end
    -- a pause as long as the burst pause is a natural gap
    if A.now - last >= burst_pause then burst = 0 end
    burst, last = burst + 1, A.now
    local wait = math.floor((low + chance * (high - low)) * slow)
    if burst_count and burst >= burst_count then
      wait, burst = math.max(wait, burst_pause), 0
      redis.call('HSET', key, 'pausedUntil', A.now + wait)
    else
      redis.call('HDEL', key, 'pausedUntil')
    end
    due = A.now + wait
    redis.call('HSET', key, 'dayCount', day_count, 'nextDue', due, 'burst', burst, 'lastAt', last, 'lastDelay', wait)
    if due > A.now then again = due; break end
  end
  -- full: the answer to one of those under way wakes the lane
  if under_way >= most then return nil end
  return again
end

local due = redis.call('ZRANGE', K.lanes_due(), '-inf', A.now, 'BYSCORE', 'LIMIT', 0, A.lanes)
for i, lane in ipairs(due) do
  local again = serve(lane, A.chances[i])
  if again then redis.call('ZADD', K.lanes_due(), again, lane) else redis.call('ZREM', K.lanes_due(), lane) end
end
for session in pairs(woken) do wake(session) end
return reply({moved = moved, looked = #due, plan = plan})
