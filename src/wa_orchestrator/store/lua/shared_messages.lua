-- Shared by the scripts that move messages.
-- A lane is a sender's phone. Its queue holds at most one message per recipient (the head); later ones to the same recipient
-- stand behind it and come forward when it has ended: order per recipient holds, whatever is retried in between.
local TOO_MANY_TRIES = 20        -- handed to workers without an answer: something else is wrong
local CLOSING_MS = 5000          -- typing and sending take a moment: nothing is begun so shortly before the hours end
local LOOK_AGAIN_MS = 15000      -- an outbox that nobody emptied is looked at again after this
local MOST_REASONS = 60          -- kinds of failures that are counted apart
local RANK = {sent = 1, delivered = 2, read = 3, played = 4}
local ENDED = {sent = true, delivered = true, read = true, played = true, failed = true, expired = true, cancelled = true}

local function message_get(id, name) return redis.call('HGET', K.message(id), name) or '' end
local function behind(lane, recipient) return K.queue_behind(lane .. ':' .. recipient) end
-- Jobs of the same millisecond keep the order in which they were accepted; a score holds 1/4096 ms exactly.
local function job_score(at, number) return at + (number % 4096) / 4096 end

local function count(name)
  if not given(A.today) then return end
  -- the first of its kind gives the record its lifetime
  if redis.call('HINCRBY', K.stats_day(A.today), name, 1) == 1 then redis.call('EXPIRE', K.stats_day(A.today), 3456000) end
  local minute = K.stats_minute(string.format('%d', math.floor(A.now / 60000)))
  if redis.call('HINCRBY', minute, name, 1) == 1 then redis.call('EXPIRE', minute, 172800) end
  redis.call('HINCRBY', K.stats_total(), name, 1)
end

-- Failures by the code their reason begins with. Codes come from workers too, so their number is bounded.
local function count_failure(reason)
  local code = string.match(reason or '', '^([A-Z][A-Z0-9_]+)') or 'OTHER'
  local known = redis.call('HEXISTS', K.stats_failed(), code) == 1
  if #code > 40 or (not known and redis.call('HLEN', K.stats_failed()) >= MOST_REASONS) then code = 'OTHER' end
  redis.call('HINCRBY', K.stats_failed(), code, 1)
end

-- A line in the message's story, for what its times alone do not tell.
local function tell(id, what, reason, at)
  local line = cjson.encode({at = at or A.now, what = what, reason = reason or ''})
  redis.call('HSET', K.message(id), 'story', message_get(id, 'story') .. line .. '\n')
end

local function publish(id, state, reason)
  local m = redis.call('HMGET', K.message(id), 'session', 'to', 'wa', 'outboxOf', 'traceparent')
  note('message.' .. state, m[4] or m[1] or '', {messageId = id, to = m[2] or '', waMessageId = m[3] or '', reason = reason or '',
    traceparent = m[5] or nil})
end

-- The lane should be looked at, not before its next due time.
local function lane_due(lane)
  if redis.call('ZCARD', K.queue(lane)) == 0 then return end
  local due = tonumber(redis.call('HGET', K.lane(lane), 'nextDue')) or 0
  redis.call('ZADD', K.lanes_due(), math.max(A.now, due), lane)
end

-- The session's outbox should be looked at, at that time at the latest.
local function look_at_outbox(session, at) redis.call('ZADD', K.outbox_retries(), 'LT', at, session) end

-- Earlier messages to a recipient go first, in whatever order they come here. True: it is the first of them.
local function line_up(id, lane, recipient, priority, number)
  redis.call('SADD', K.queue_size(lane), id)
  local head = redis.call('HGET', K.queue_heads(lane), recipient)
  if head and head ~= id then
    local head_number = tonumber(message_get(head, 'number')) or 0
    if head_number < number or redis.call('ZREM', K.queue(lane), head) == 0 then
      redis.call('ZADD', behind(lane, recipient), number, id)
      return false
    end
    redis.call('ZADD', behind(lane, recipient), head_number, head)
  end
  redis.call('HSET', K.queue_heads(lane), recipient, id)
  redis.call('ZADD', K.queue(lane), priority * 1e13 + number, id)
  return true
end

local function into_queue(id, lane, recipient, priority, number)
  redis.call('HSET', K.message(id), 'state', 'queued', 'queuedAt', A.now, 'lane', lane)
  if line_up(id, lane, recipient, priority, number) then lane_due(lane) end
end

-- One message of the lane went out, or may have: the limits count from here, not from when it was handed over.
local function count_send(lane)
  local L = redis.call('HMGET', K.lane(lane), 'lastDelay', 'nextDue', 'perMinute', 'dayEndsAt', 'pausedUntil')
  local due, most = A.now + (tonumber(L[1]) or 0), tonumber(L[3]) or 0
  redis.call('HSET', K.lane(lane), 'lastAt', A.now)
  if due > (tonumber(L[2]) or 0) then
    redis.call('HSET', K.lane(lane), 'nextDue', due)
    if L[5] then redis.call('HSET', K.lane(lane), 'pausedUntil', due) end
  end
  if most > 0 then
    redis.call('LPUSH', K.lane_minute(lane), A.now)
    redis.call('LTRIM', K.lane_minute(lane), 0, most - 1)
    redis.call('PEXPIRE', K.lane_minute(lane), 120000)
  end
  if L[4] and A.now >= tonumber(L[4]) then
    -- released yesterday, sent today: the new day's plan begins with it
    redis.call('HINCRBY', K.lane(lane), 'carry', 1)
    redis.call('ZADD', K.lanes_due(), A.now, lane)
  end
end

-- It is no longer under way. What no worker ever had was not sent: its place in the day is free again.
local function leave_lane(id, lane, went)
  local was_under_way = redis.call('SREM', K.lane_inflight(lane), id) == 1
  if went then
    count_send(lane)
  elseif was_under_way and (tonumber(redis.call('HGET', K.lane(lane), 'dayCount')) or 0) > 0 then
    redis.call('HINCRBY', K.lane(lane), 'dayCount', -1)
  end
end

local function may_have_been_sent(id) return redis.call('HEXISTS', K.message(id), 'claimedAt') == 1 end

-- Back into its lane, at its old place: it was released but must not be sent now.
local function back_into_queue(id, went)
  local m = redis.call('HMGET', K.message(id), 'lane', 'recipient', 'priority', 'number', 'outboxOf')
  redis.call('ZREM', K.session_outbox(m[5] or ''), id)
  redis.call('ZREM', K.claims_expiring(), id)
  if went == nil then went = may_have_been_sent(id) end
  leave_lane(id, m[1], went)
  if not went then redis.call('HDEL', K.message(id), 'claimedAt') end
  into_queue(id, m[1], m[2], tonumber(m[3]), tonumber(m[4]))
end

-- Takes a message out of everything it may stand in, and lets the next one to the same recipient come forward.
local function take_out(id, went)
  local m = redis.call('HMGET', K.message(id), 'lane', 'recipient', 'outboxOf', 'capDay')
  redis.call('SREM', K.recipient_waiting(m[2] or ''), id)
  redis.call('ZREM', K.gateway_jobs(), id)
  redis.call('ZREM', K.messages_expiring(), id)
  redis.call('ZREM', K.claims_expiring(), id)
  if m[3] then redis.call('ZREM', K.session_outbox(m[3]), id) end
  local lane, recipient = m[1], m[2]
  if m[4] and not went then
    -- it was counted for the recipient's day and not sent
    redis.call('HDEL', K.message(id), 'capDay')
    local day = K.recipient_day(m[4] .. ':' .. recipient)
    if (tonumber(redis.call('GET', day)) or 0) > 0 then redis.call('DECR', day) end
  end
  if not lane or lane == '' then return end
  leave_lane(id, lane, went)
  redis.call('SREM', K.queue_size(lane), id)
  redis.call('ZREM', K.queue(lane), id)
  redis.call('ZREM', behind(lane, recipient), id)
  if redis.call('HGET', K.queue_heads(lane), recipient) == id then
    local following = redis.call('ZPOPMIN', behind(lane, recipient))
    if following[1] then
      local next_id = following[1]
      redis.call('HSET', K.queue_heads(lane), recipient, next_id)
      redis.call('ZADD', K.queue(lane), tonumber(message_get(next_id, 'priority')) * 1e13 + tonumber(following[2]), next_id)
    else
      redis.call('HDEL', K.queue_heads(lane), recipient)
    end
  end
  lane_due(lane)
end

-- Ends a message: failed, expired or cancelled, with the reason.
local function finish(id, state, reason)
  take_out(id, may_have_been_sent(id))
  redis.call('HSET', K.message(id), 'state', state, state .. 'At', A.now, 'reason', reason or '')
  redis.call('PEXPIRE', K.message(id), A.keepMs)
  if state == 'failed' then
    redis.call('ZADD', K.messages_dead(), A.now, id)
    count_failure(reason)
  end
  count(state)
  publish(id, state, reason)
end

-- A run of failures slows the lane down, one success brings it back.
local function lane_failed(lane)
  local run = redis.call('HINCRBY', K.lane(lane), 'failures', 1)
  if run >= 3 then
    local slow = math.min(2 ^ (run - 2), 32)
    redis.call('HSET', K.lane(lane), 'slow', slow, 'slowSince', A.now)
    if run == 3 then note('lane.slowed', '', {phone = lane, failures = run}) end
  end
end

local function lane_succeeded(lane)
  local was = redis.call('HMGET', K.lane(lane), 'failures', 'slow', 'blocks', 'blockedUntil')
  if was[1] or was[2] then
    redis.call('HDEL', K.lane(lane), 'failures', 'slow', 'slowSince')
    if was[2] then note('lane.recovered', '', {phone = lane}) end
  end
  -- what was under way when the block began does not end it
  if was[3] and (tonumber(was[4]) or 0) <= A.now then redis.call('HDEL', K.lane(lane), 'blocks', 'blockReason', 'blockedUntil', 'blockedAt') end
end

-- Who talked to a recipient last sends the next message to it, too.
local function talked(recipient, session)
  redis.call('SET', K.recipient(recipient), session, 'EX', 7776000)
  redis.call('DEL', K.routed(recipient))
end

-- What its limits are made of changed: the lane is planned anew before its next message.
local function plan_anew(lane)
  redis.call('HINCRBY', K.lane(lane), 'planVersion', 1)
  redis.call('HSET', K.lane(lane), 'replanAt', 0)
  redis.call('ZADD', K.lanes_due(), A.now, lane)
end

-- Something lies in the session's outbox now.
local function wake(session) redis.call('PUBLISH', K.wake(), session) end

-- A worker had it and gave no answer. It goes back to the outbox, keeps its WhatsApp id, and the worker's ledger knows whether it went.
local function take_back(id, why)
  local m = redis.call('HMGET', K.message(id), 'state', 'outboxOf')
  redis.call('ZREM', K.claims_expiring(), id)
  if m[1] ~= 'claimed' then return false end
  if redis.call('HINCRBY', K.message(id), 'tries', 1) >= TOO_MANY_TRIES then
    finish(id, 'failed', 'NO_ANSWER: no worker confirmed it, so it may or may not have been sent')
  elseif not session_exists(m[2]) then
    -- its lane finds another session of the phone, or says that there is none
    back_into_queue(id)
  else
    redis.call('HSET', K.message(id), 'state', 'outbox', 'outboxAt', A.now)
    redis.call('ZADD', K.session_outbox(m[2]), A.now, id)
    tell(id, 'lease_ended', why)
    look_at_outbox(m[2], A.now + LOOK_AGAIN_MS)
    return true
  end
  return false
end
