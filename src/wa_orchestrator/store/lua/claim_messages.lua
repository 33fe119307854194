-- uses: shared_messages
-- Hands messages of a session's outbox to its worker, with a lease and a fencing token each.
-- ARGV {now, today, keepMs, session, max, leaseMs, emptyHanded}
-- RETURNS {messages[], exists: whether there is such a session, commands[]: those that wait for its worker}
-- The lease ends with the sending hours: a worker begins nothing that its lease does not cover.
local QUICK_RETURNS = 3  -- a message that kills its workers must not do so again and again without a pause
local handed = {}
local phone = session_get(A.session, 'phone')
if A.emptyHanded then
  -- A worker that has just begun, or whose last claim got no answer: what the session is said to have, it has not.
  for _, id in ipairs(redis.call('SMEMBERS', K.lane_inflight(phone))) do
    local m = redis.call('HMGET', K.message(id), 'outboxOf', 'tries')
    if m[1] == A.session and (tonumber(m[2]) or 0) < QUICK_RETURNS then take_back(id, 'the worker came back without it') end
  end
end
for _, id in ipairs(redis.call('ZRANGE', K.session_outbox(A.session), '-inf', A.now, 'BYSCORE', 'LIMIT', 0, A.max)) do
  local m = redis.call('HMGET', K.message(id), 'wa', 'to', 'content', 'expiresAt', 'lane', 'recipient', 'attempts', 'tries', 'exempt', 'redriven')
  local L = redis.call('HMGET', K.lane(m[5] or ''), 'opensAt', 'closesAt', 'maxDelay', 'blockedUntil')
  if not m[1] then
    redis.call('ZREM', K.session_outbox(A.session), id)
  elseif m[4] and tonumber(m[4]) <= A.now then
    finish(id, 'expired', 'EXPIRED')
  elseif not m[9] and redis.call('HEXISTS', K.suppressed(), m[6]) == 1 then
    -- it was with a worker when the recipient opted out, and came back
    finish(id, 'cancelled', 'RECIPIENT_OPTED_OUT')
  elseif L[2] and (A.now + CLOSING_MS > tonumber(L[2]) or A.now < tonumber(L[1])) then
    -- it lay here while the worker was away, and the sending hours are over now
    back_into_queue(id)
  elseif m[5] ~= phone or (tonumber(L[4]) or 0) > A.now then
    -- the session was linked to another phone meanwhile, or WhatsApp limits the phone
    back_into_queue(id)
  else
    local token = redis.call('INCR', K.claims_token())
    redis.call('ZREM', K.session_outbox(A.session), id)
    local lease_ends = math.min(A.now + A.leaseMs, tonumber(L[2]) or math.huge)
    redis.call('ZADD', K.claims_expiring(), lease_ends, id)
    redis.call('HSET', K.message(id), 'state', 'claimed', 'claimedAt', A.now, 'token', token)
    handed[#handed + 1] = {messageId = id, waMessageId = m[1], to = m[2], content = m[3], token = token,
      expiresAt = lease_ends, attempt = (tonumber(m[7]) or 0) + 1, paced = tonumber(L[3] or 0) > 0,
      known = redis.call('EXISTS', K.recipient(m[6])) == 1, redriven = m[10] == '1'}
  end
end
return reply({messages = handed, exists = session_exists(A.session), commands = redis.call('HVALS', K.session_commands(A.session))})
