-- uses: shared_messages shared_rate
-- Accepts a message in one step: idempotency, opt-out, rate limits, sender, day limits, record, queue.
-- ARGV {now, today, id, wa, to, recipient, content, session?, phone?, priority, scheduleAt?, expiresAt?, defer, by, reference?, traceparent?,
--       idempotency?{key, fingerprint}, ratePerSecond, rateBurst, keyRate?{name, perMinute, burst}, recipientCap?, tomorrow?,
--       floodPerMinute, keepMs}
-- RETURNS {messageId, session, lane, replayed, snapshot} | IDEMPOTENCY_KEY_REUSED | TOO_MANY_REQUESTS {retryAfterMs} | SESSION_NOT_FOUND
--         | SENDER_NOT_FOUND | DAILY_LIMIT {limit, resetsAt} | RECIPIENT_OPTED_OUT | RECIPIENT_CAP {limit, resetsAt}
if given(A.idempotency) then
  local before = redis.call('GET', K.idempotency(A.idempotency.key))
  if before then
    local fingerprint, answer = string.match(before, '^(%S+) (.*)$')
    if fingerprint ~= A.idempotency.fingerprint then return refuse('IDEMPOTENCY_KEY_REUSED') end
    return '{"replayed":true,' .. string.sub(answer, 2)
  end
end

-- Who wants no messages gets none, whoever sends
if redis.call('HEXISTS', K.suppressed(), A.recipient) == 1 then return refuse('RECIPIENT_OPTED_OUT') end

-- Sender, and whether somebody has to act before it can send: then nobody can say when
local session, lane, stuck = '', '', false
local COMES_BACK = {connected = true, reconnecting = true, unhealthy = true}
if given(A.session) then
  local S = redis.call('HMGET', K.session(A.session), 'status', 'wanted', 'phone')
  if not S[1] or S[2] == 'deleted' then return refuse('SESSION_NOT_FOUND') end
  session, lane, stuck = A.session, S[3] or '', not COMES_BACK[S[1]]
elseif given(A.phone) then
  lane, stuck = A.phone, true
  local live = live_sessions_of(lane)
  if #live == 0 then return refuse('SENDER_NOT_FOUND') end
  for _, id in ipairs(live) do stuck = stuck and not COMES_BACK[session_get(id, 'status')] end
else
  stuck = redis.call('SCARD', K.sessions_active()) == 0
end

-- Day limit, where the sender is known. What waits already is ahead of this one.
local snapshot = {pending = 0, stuck = stuck or nil}  -- absent in the usual case: it is part of every answer
if lane ~= '' then
  local names = {'nextDue', 'minDelay', 'maxDelay', 'opensAt', 'closesAt', 'daily', 'dayCount', 'dayEndsAt', 'nextOpensAt',
    'perMinute', 'blockedUntil', 'slow'}
  local L = redis.call('HMGET', K.lane(lane), unpack(names))
  for i, name in ipairs(names) do snapshot[name] = tonumber(L[i]) end
  snapshot.pending = redis.call('SCARD', K.queue_size(lane))
  local daily = snapshot.daily
  if daily and not A.defer and not given(A.scheduleAt) then
    local today_left = daily
    if (snapshot.dayEndsAt or 0) > A.now then today_left = daily - (snapshot.dayCount or 0) end
    if today_left - snapshot.pending <= 0 then
      local resets = snapshot.dayEndsAt or A.now
      while resets <= A.now do resets = resets + 86400000 end
      return refuse('DAILY_LIMIT', {limit = daily, resetsAt = resets})
    end
  end
end

-- What a recipient may have in a day from all senders together: released ones, and those that wait for it
if given(A.recipientCap) and not A.defer and not given(A.scheduleAt) then
  local taken = tonumber(redis.call('GET', K.recipient_day(A.today .. ':' .. A.recipient))) or 0
  local waiting = K.recipient_waiting(A.recipient)
  if taken + redis.call('SCARD', waiting) >= A.recipientCap then
    if taken < A.recipientCap then
      -- those under way are in both numbers
      for _, id in ipairs(redis.call('SRANDMEMBER', waiting, 2 * A.recipientCap)) do
        local state = message_get(id, 'state')
        if state == 'accepted' or state == 'queued' then taken = taken + 1 end
      end
    end
    if taken >= A.recipientCap then return refuse('RECIPIENT_CAP', {limit = A.recipientCap, resetsAt = A.tomorrow}) end
  end
end

-- Rates of the whole installation and of the caller's key
local rates = {}
if A.ratePerSecond > 0 then rates[1] = {'accept', 1000 / A.ratePerSecond, A.rateBurst} end
if given(A.keyRate) then rates[#rates + 1] = {A.keyRate.name, 60000 / A.keyRate.perMinute, A.keyRate.burst} end
for _, rate in ipairs(rates) do
  local wait, fits = wait_for_turn(rate[1], rate[2], rate[3])
  if wait > 0 then return refuse('TOO_MANY_REQUESTS', {retryAfterMs = wait, of = rate[1] == 'accept' and 'all' or 'key'}) end
  rate[4] = fits
end
for _, rate in ipairs(rates) do take_turn(rate[1], rate[2], rate[4]) end

local number = redis.call('INCR', K.messages_number())
local queued = lane ~= '' and not given(A.scheduleAt)
redis.call('HSET', K.message(A.id), 'id', A.id, 'wa', A.wa, 'to', A.to, 'recipient', A.recipient, 'content', A.content,
  'session', session, 'lane', lane, 'priority', A.priority, 'number', number, 'state', queued and 'queued' or 'accepted',
  'acceptedAt', A.now, 'by', A.by, unpack(queued and {'queuedAt', A.now} or {}))
if given(A.reference) then redis.call('HSET', K.message(A.id), 'reference', A.reference) end
if given(A.traceparent) then redis.call('HSET', K.message(A.id), 'traceparent', A.traceparent) end
redis.call('ZADD', K.messages_all(), A.now, A.id)
redis.call('SADD', K.recipient_waiting(A.recipient), A.id)
if given(A.expiresAt) then
  redis.call('HSET', K.message(A.id), 'expiresAt', A.expiresAt)
  redis.call('ZADD', K.messages_expiring(), A.expiresAt, A.id)
end
if given(A.scheduleAt) then
  redis.call('HSET', K.message(A.id), 'scheduleAt', A.scheduleAt)
  redis.call('ZADD', K.gateway_jobs(), job_score(A.scheduleAt, number), A.id)
elseif not queued then
  redis.call('ZADD', K.gateway_jobs(), job_score(A.now, number), A.id)
elseif line_up(A.id, lane, A.recipient, A.priority, number) then
  redis.call('ZADD', K.lanes_due(), math.max(A.now, snapshot.nextDue or 0), lane)
end
count('accepted')
-- a sudden flood for one phone is said once a minute: somebody's loop, or somebody else's key
if lane ~= '' and A.floodPerMinute > 0 then
  local flood = K.lane_flood(lane .. ':' .. string.format('%d', math.floor(A.now / 60000)))
  local came = redis.call('INCR', flood)
  if came == 1 then redis.call('EXPIRE', flood, 120) end
  if came == A.floodPerMinute then note('lane.flood', session, {phone = lane, messages = came}) end
end

local answer = {messageId = A.id, session = session, lane = lane, acceptedAt = A.now, snapshot = snapshot,
  scheduleAt = given(A.scheduleAt) and A.scheduleAt or nil}
local told = cjson.encode(answer)
if given(A.idempotency) then
  redis.call('SET', K.idempotency(A.idempotency.key), A.idempotency.fingerprint .. ' ' .. told, 'EX', 86400)
end
return '{"replayed":false,' .. string.sub(told, 2)
