-- uses: shared_messages
-- The worker could not send it. Refusals count as attempts; an unclear end (no answer came) is repeated with the same id.
-- ARGV {now, today, keepMs, id, session, token, code, message, retryable, retryAfterMs?, maxAttempts, kind = refused|unclear|limited, blockMs?}
-- limited: WhatsApp's own limit; the lane stops, the message waits. RETURNS {ok, state} | MESSAGE_NOT_FOUND | LEASE_LOST
local m = redis.call('HMGET', K.message(A.id), 'state', 'token', 'lane', 'attempts', 'tries', 'outboxOf')
if not m[1] or m[6] ~= A.session then return refuse('MESSAGE_NOT_FOUND') end
if m[1] ~= 'claimed' or tonumber(m[2]) ~= A.token then return refuse('LEASE_LOST', {state = m[1]}) end
local lane = m[3]
tell(A.id, A.kind == 'limited' and 'held_by_whatsapp' or 'not_sent', A.code .. ': ' .. A.message)

if A.kind == 'limited' then
  local blocks = redis.call('HINCRBY', K.lane(lane), 'blocks', 1)
  local rest = math.min(A.blockMs * 2 ^ (blocks - 1), 86400000)
  local until_ms = A.now + math.max(rest, given(A.retryAfterMs) and A.retryAfterMs or 0)
  redis.call('HSET', K.lane(lane), 'blockedUntil', until_ms, 'blockedAt', A.now, 'blockReason', A.code)
  -- WhatsApp took nothing, unless an earlier try without an answer went through
  back_into_queue(A.id, (tonumber(m[5]) or 0) > 0)
  note('lane.blocked', A.session, {phone = lane, reason = A.code, ['until'] = until_ms})
  return reply({ok = true, state = 'queued'})
end

local attempts, tries = tonumber(m[4]) or 0, tonumber(m[5]) or 0
if A.kind == 'refused' then
  attempts = redis.call('HINCRBY', K.message(A.id), 'attempts', 1)
  lane_failed(lane)
else
  tries = redis.call('HINCRBY', K.message(A.id), 'tries', 1)
end
if not A.retryable or attempts >= A.maxAttempts or tries >= TOO_MANY_TRIES then
  finish(A.id, 'failed', A.code .. ': ' .. A.message)
  return reply({ok = true, state = 'failed'})
end
local wait = given(A.retryAfterMs) and A.retryAfterMs or math.min(1000 * 2 ^ math.max(attempts + tries - 1, 0), 60000)
redis.call('ZREM', K.claims_expiring(), A.id)
redis.call('HSET', K.message(A.id), 'state', 'outbox', 'outboxAt', A.now, 'retryAt', A.now + wait)
redis.call('ZADD', K.session_outbox(A.session), A.now + wait, A.id)
look_at_outbox(A.session, A.now + wait)
return reply({ok = true, state = 'outbox'})
