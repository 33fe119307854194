-- uses: shared_messages
-- The clock was set back: whatever waits for a moment that was reckoned while it was ahead would wait for as long as it was ahead.
-- Moments that a caller chose (scheduleAt, expiresAt) stay as they are. Once for each time the clock is set back; the lanes come first.
-- ARGV {now, slackMs}   RETURNS {done}
local seen = tonumber(redis.call('GET', K.clock_seen())) or 0
local back = seen - A.now
if back <= A.slackMs then return reply({done = false}) end
redis.call('PERSIST', K.clock_seen())
redis.call('SET', K.clock_seen(), string.format('%d', A.now))

-- entries later than now, with their scores as numbers
local function later(key, limit)
  local flat = redis.call('ZRANGE', key, '(' .. A.now, limit or '+inf', 'BYSCORE', 'WITHSCORES')
  local i = -1
  return function()
    i = i + 2
    if flat[i] then return flat[i], tonumber(flat[i + 1]) end
  end
end
local function at_once(key)
  for entry in later(key) do redis.call('ZADD', key, A.now, entry) end
end
-- what was due when the clock was ahead has been done; what lay ahead even then was reckoned then
local function moved_back(key)
  for entry, at in later(key) do
    if at > seen then redis.call('ZADD', key, at - back, entry) end
  end
end

-- leases given while it was ahead; those given before end when they should
for id, ends in later(K.claims_expiring()) do
  if (tonumber(message_get(id, 'claimedAt')) or 0) > A.now then redis.call('ZADD', K.claims_expiring(), math.max(A.now, ends - back), id) end
end
-- looked at too early costs one look
at_once(K.lanes_due())
at_once(K.outbox_retries())
-- put off while nobody could send them, or planned by the caller
for id in later(K.gateway_jobs(), seen + 3600000) do
  local m = redis.call('HMGET', K.message(id), 'scheduleAt', 'number')
  redis.call('ZADD', K.gateway_jobs(), job_score(math.max(A.now, tonumber(m[1]) or 0), tonumber(m[2]) or 0), id)
end
for id in later(K.messages_expiring(), seen + 60000) do
  local ends = tonumber(message_get(id, 'expiresAt'))
  if ends then redis.call('ZADD', K.messages_expiring(), ends, id) end
end
moved_back(K.sessions_unconfirmed())
moved_back(K.sessions_unscanned())
moved_back(K.proxies_checks())
if (tonumber(redis.call('GET', K.rate('accept'))) or 0) > A.now + A.slackMs then redis.call('DEL', K.rate('accept')) end

local NOTED = {'startedAt', 'lastPing', 'lastReceivedAt', 'rescuedAt', 'connectedAt', 'statusAt', 'lastDisconnectAt', 'startErrorAt'}
for _, id in ipairs(redis.call('ZRANGE', K.sessions_all(), 0, -1)) do
  for i, at in ipairs(redis.call('HMGET', K.session(id), unpack(NOTED))) do
    if at and (tonumber(at) or 0) > A.now then redis.call('HSET', K.session(id), NOTED[i], math.min(A.now, tonumber(at) - back)) end
  end
  for message, at in later(K.session_outbox(id)) do
    redis.call('ZADD', K.session_outbox(id), math.max(A.now, at > seen and at - back or A.now), message)
  end
  local qr = redis.call('GET', K.session_qr(id))
  if qr then
    -- a code lives for a minute: one that seems to live longer comes from when the clock was ahead
    local code = cjson.decode(qr)
    if code.expiresAt > seen then
      code.expiresAt = code.expiresAt - back
      redis.call('SET', K.session_qr(id), cjson.encode(code), 'PX', math.max(1, code.expiresAt - A.now))
    elseif code.expiresAt > A.now + 120000 then
      redis.call('DEL', K.session_qr(id))
    end
  end
end
note('clock.set_back', '', {backMs = back})
return reply({done = true})
