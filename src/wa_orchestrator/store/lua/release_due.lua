-- uses: shared_messages
-- Takes every due lane and moves what it may send into the outbox of its session, counting it in the same step.
-- ARGV {now, today, keepMs, lanes, unpaced, seed, recipientCap?, tomorrow?}
-- lanes: how many at most; unpaced: how many may be under way without delays; seed: of the delays' chances.
-- RETURNS {moved, looked, jobs: how many messages without a lane are due, plan[]: lanes whose instants have passed,
--   late[]: how many ms after its due time each lane was served}
local MOST_LOOKED = 1000         -- messages of one lane that cannot go now, looked at in one call
local moved, plan = 0, {}
local woken = {}

local function connected_session(lane)
  for _, id in ipairs(redis.call('SMEMBERS', K.phone_session(lane))) do
    if session_get(id, 'status') == 'connected' then return id end
  end
  return nil
end

local known = {}
local function look_up(session)
  if session == '' then return nil end
  if known[session] == nil then
    local status = session_get(session, 'status')
    known[session] = status ~= '' and {phone = session_get(session, 'phone'), open = status == 'connected',
      ended = status == 'logged_out' or status == 'failed'}
  end
  return known[session]
end

local function follow(id, lane)
  local m = redis.call('HMGET', K.message(id), 'recipient', 'priority', 'number', 'expiresAt')
  take_out(id, false)
  redis.call('SADD', K.recipient_waiting(m[1]), id)
  if m[4] then redis.call('ZADD', K.messages_expiring(), m[4], id) end
  into_queue(id, lane, m[1], tonumber(m[2]), tonumber(m[3]))
end

-- Who opted out gets nothing more, but the answer to that.
local any_suppressed = redis.call('HLEN', K.suppressed()) > 0
local function opted_out(recipient, exempt)
  return any_suppressed and not exempt and redis.call('HEXISTS', K.suppressed(), recipient) == 1
end

-- A recipient's day over all senders is full. What a worker may have sent was counted then.
local cap = given(A.recipientCap) and A.recipientCap or nil
local function day_is_full(recipient, claimed, counted)
  if claimed or counted == A.today then return false end
  return (tonumber(redis.call('GET', K.recipient_day(A.today .. ':' .. recipient))) or 0) >= cap
end

local function count_day(id)
  local m = redis.call('HMGET', K.message(id), 'recipient', 'capDay', 'exempt')
  if m[2] == A.today or m[3] then return end
  local day = K.recipient_day(A.today .. ':' .. m[1])
  if redis.call('INCR', day) == 1 then redis.call('EXPIRE', day, 172800) end
  redis.call('HSET', K.message(id), 'capDay', A.today)
end

-- Waits outside of its lane for the next day, so that the lane need not look at it again and again.
local function put_off(id)
  local m = redis.call('HMGET', K.message(id), 'recipient', 'number', 'expiresAt')
  take_out(id, false)
  redis.call('SADD', K.recipient_waiting(m[1]), id)
  if m[3] then redis.call('ZADD', K.messages_expiring(), m[3], id) end
  redis.call('HSET', K.message(id), 'state', 'accepted', 'waitingFor', 'RECIPIENT_CAP')
  redis.call('ZADD', K.gateway_jobs(), job_score(A.tomorrow, tonumber(m[2])), id)
  tell(id, 'put_off', 'RECIPIENT_CAP')
end

-- The first message of the lane that can go now, and its session. What can never go is ended on the way.
-- The third value tells that there is more to look at: one call must not hold the store for long.
local function choose(lane)
  local any, offset, ended = nil, 0, false
  for _ = 1, MOST_LOOKED / 20 do
    local page = redis.call('ZRANGE', K.queue(lane), offset, offset + 19)
    for _, id in ipairs(page) do
      local m = redis.call('HMGET', K.message(id), 'session', 'expiresAt', 'claimedAt', 'outboxOf', 'recipient', 'exempt', 'capDay')
      local pinned = m[1] or ''
      local its = look_up(pinned)
      if pinned == '' and m[3] and m[4] then
        -- a worker had it and may have sent it: only that one knows, as long as it can be asked
        local holder = look_up(m[4])
        if holder and holder.phone == lane and not holder.ended then pinned, its = m[4], holder end
      end
      if m[2] and tonumber(m[2]) <= A.now then
        finish(id, 'expired', 'EXPIRED')
        ended = true
      elseif opted_out(m[5], m[6]) then
        finish(id, 'cancelled', 'RECIPIENT_OPTED_OUT')
        ended = true
      elseif cap and not m[6] and day_is_full(m[5], m[3], m[7]) then
        put_off(id)
        ended = true
      elseif pinned ~= '' and not its then
        finish(id, 'failed', 'SESSION_DELETED')
        ended = true
      elseif pinned ~= '' and its.phone ~= '' and its.phone ~= lane then
        -- the session was linked to another phone meanwhile: its messages and their pacing follow it
        follow(id, its.phone)
        ended = true
      elseif pinned ~= '' then
        if its.open and its.phone == lane then return id, pinned end
        offset = offset + 1
      else
        if any == nil then any = connected_session(lane) or false end
        if any then return id, any end
        offset = offset + 1
      end
    end
    if redis.call('ZCARD', K.queue(lane)) <= offset then return nil end
  end
  return nil, nil, ended
end

local function release(lane, id, session)
  redis.call('ZREM', K.queue(lane), id)
  redis.call('SREM', K.queue_size(lane), id)
  redis.call('SADD', K.lane_inflight(lane), id)
  redis.call('HSET', K.message(id), 'state', 'outbox', 'outboxAt', A.now, 'outboxOf', session)
  redis.call('ZADD', K.session_outbox(session), A.now, id)
  if cap then count_day(id) end
  woken[session] = true
  moved = moved + 1
end

-- Moves what may go now; returns when to look again, or nil when something else will wake the lane.
local function serve(lane, chance)
  local key = K.lane(lane)
  local L = redis.call('HMGET', key, 'replanAt', 'blockedUntil', 'opensAt', 'daily', 'dayCount', 'dayEndsAt', 'perMinute', 'minDelay',
    'maxDelay', 'nextDue', 'burstCount', 'burstPause', 'burst', 'lastAt', 'slow', 'closesAt', 'lastDelay')
  local replan, blocked, opens = tonumber(L[1]) or 0, tonumber(L[2]) or 0, tonumber(L[3]) or 0
  if A.now >= replan then plan[#plan + 1] = lane; return A.now + 1000 end
  if redis.call('ZCARD', K.queue(lane)) == 0 then return nil end
  if blocked > A.now then return blocked end
  if opens > A.now then return opens end
  if (tonumber(L[16]) or 0) - A.now < CLOSING_MS then return replan end
  local daily, day_count, day_ends = tonumber(L[4]), tonumber(L[5]) or 0, tonumber(L[6])
  local per_minute, low, high = tonumber(L[7]), tonumber(L[8]), tonumber(L[9])
  local due = tonumber(L[10]) or 0
  if due > A.now then return due end
  local burst_count, burst_pause, burst, last = tonumber(L[11]), tonumber(L[12]) or 0, tonumber(L[13]) or 0, tonumber(L[14]) or 0
  local slow = tonumber(L[15]) or 1
  local owed = tonumber(L[17]) or 0
  -- with delays one message at a time is under way: what waits in an outbox while a worker is away must not leave in a rush
  local most = high > 0 and 1 or A.unpaced
  local under_way = redis.call('SCARD', K.lane_inflight(lane))
  local again = nil
  while under_way < most do
    -- a pause counts from the last send, so it begins when nothing is under way any more
    if owed > 0 and under_way > 0 then break end
    if daily and day_count >= daily then again = day_ends; break end
    if per_minute then
      if per_minute == 0 then again = replan; break end
      -- each one under way may be sent at any moment from now
      local left = per_minute - under_way
      if left <= 0 then break end
      local oldest = tonumber(redis.call('LINDEX', K.lane_minute(lane), left - 1))
      if oldest and oldest > A.now - 60000 then again = oldest + 60000; break end
    end
    local id, session, more = choose(lane)
    if not id then
      if more then again = A.now end
      break
    end
    release(lane, id, session)
    -- a pause as long as the burst pause is a natural gap
    if under_way == 0 and A.now - last >= burst_pause then burst = 0 end
    under_way, day_count = under_way + 1, day_count + 1
    burst, last = burst + 1, A.now
    local wait = math.floor((low + chance * (high - low)) * slow)
    if burst_count and burst >= burst_count then
      wait, burst = math.max(wait, burst_pause), 0
      redis.call('HSET', key, 'pausedUntil', A.now + wait)
    else
      redis.call('HDEL', key, 'pausedUntil')
    end
    due, owed = A.now + wait, wait
    redis.call('HSET', key, 'dayCount', day_count, 'nextDue', due, 'burst', burst, 'lastAt', last, 'lastDelay', wait)
  end
  -- nil: the answer to one of those under way, a session that connects or a new message wakes the lane
  return again
end

local due = redis.call('ZRANGE', K.lanes_due(), '-inf', A.now, 'BYSCORE', 'LIMIT', 0, A.lanes, 'WITHSCORES')
local late = {}
math.randomseed(A.seed)
for i = 1, #due, 2 do
  local lane, before = due[i], moved
  local again = serve(lane, math.random())
  if moved > before then late[#late + 1] = A.now - tonumber(due[i + 1]) end
  if again then redis.call('ZADD', K.lanes_due(), again, lane) else redis.call('ZREM', K.lanes_due(), lane) end
end
for session in pairs(woken) do
  look_at_outbox(session, A.now + LOOK_AGAIN_MS)
  wake(session)
end
-- told along, so that the router need not ask by itself at every tick
local jobs = redis.call('ZCOUNT', K.gateway_jobs(), '-inf', '(' .. string.format('%d', A.now + 1))
return reply({moved = moved, looked = #due / 2, jobs = jobs, plan = plan, late = late})
