-- uses: shared_messages
-- CONNECTED: the temporary binding becomes phone → proxy and phone → session.
-- ARGV {now, id, seq?, stream?, eventAt, phone, jid, lid, name, fingerprint, allowedFrom[], maxPerPhone, cap, data}
-- RETURNS {outcome = bound | moved | repeat | late | wrong_phone | phone_full | sticky_full, was, proxy}
-- moved: the phone belongs to another healthy proxy, so session and slot are there now and the worker must follow.
if not session_exists(A.id) then return refuse('SESSION_NOT_FOUND') end
if is_repeat(A.id) then return reply({outcome = 'repeat'}) end
remember_seq(A.id)
note('CONNECTED', A.id, A.data)

local status = session_get(A.id, 'status')
local allowed = false
for _, from in ipairs(A.allowedFrom) do allowed = allowed or from == status end
local started = tonumber(session_get(A.id, 'startedAt')) or 0
if not allowed or session_get(A.id, 'wanted') ~= 'running' or A.eventAt < started then
  return reply({outcome = 'late', was = status})
end

-- ends the session without binding anything
local function fail(reason)
  give_slot(A.id)
  local expected = session_get(A.id, 'phone')
  if expected ~= '' then redis.call('SREM', K.phone_session(expected), A.id) end
  redis.call('DEL', K.session_temp(A.id), K.session_qr(A.id))
  redis.call('ZREM', K.sessions_unscanned(), A.id)
  redis.call('SREM', K.sessions_active(), A.id)
  redis.call('SREM', K.sessions_waiting(), A.id)
  -- its worker is linked to a phone that must not be used here: the next start begins with an empty folder
  redis.call('HSET', K.session(A.id), 'wanted', 'stopped', 'discardAuth', '1', 'jid', '', 'lid', '')
  move_to(A.id, 'failed', reason)
end

local expected = session_get(A.id, 'expectedPhone')
local before = session_get(A.id, 'phone')
if (expected ~= '' and expected ~= A.phone) or (session_get(A.id, 'jid') ~= '' and before ~= A.phone) then
  fail('WRONG_PHONE')
  return reply({outcome = 'wrong_phone', was = status})
end
local others = live_sessions_of(A.phone, A.id)
if #others >= A.maxPerPhone then
  fail('PHONE_ALREADY_REGISTERED')
  return reply({outcome = 'phone_full', was = status, sessionId = others[1]})
end

local current = session_get(A.id, 'proxy')
local sticky = redis.call('GET', K.phone_proxy(A.phone)) or current
-- a proxy given by hand wins, but never splits a phone that lives elsewhere
local pinned = session_get(A.id, 'pinned') == '1' and not session_elsewhere(A.phone, current, A.id)
local outcome = 'bound'
if sticky ~= current and is_healthy(sticky) and not pinned then
  if not has_room(sticky) then
    fail('STICKY_PROXY_FULL')
    return reply({outcome = 'sticky_full', was = status, proxy = sticky})
  end
  give_slot(A.id)
  take_slot(sticky, A.id)
  redis.call('SREM', K.sessions_waiting(), A.id)
  redis.call('HINCRBY', K.session(A.id), 'runOrder', 1)
  redis.call('HSET', K.session(A.id), 'startedAt', A.now)
  note('session.moved', A.id, {from = current, to = sticky, reason = 'STICKY_BINDING'})
  current, outcome = sticky, 'moved'
end

local joins = redis.call('SISMEMBER', K.phone_session(A.phone), A.id) == 0 or session_get(A.id, 'jid') == ''
if before ~= '' and before ~= A.phone then
  redis.call('SREM', K.phone_session(before), A.id)
  -- what was meant for this session follows it
  if redis.call('EXISTS', K.lane(before)) == 1 then plan_anew(before) end
end
bind_phone(A.phone, current)
-- a session that is new to the phone brings limits of its own
if joins then plan_anew(A.phone) end
redis.call('SADD', K.phone_session(A.phone), A.id)
redis.call('HSETNX', K.phone(A.phone), 'firstConnectedAt', A.now)
redis.call('DEL', K.session_temp(A.id), K.session_qr(A.id))
redis.call('ZREM', K.sessions_unscanned(), A.id)
redis.call('ZREM', K.sessions_unconfirmed(), A.id)
redis.call('SADD', K.sessions_active(), A.id)
redis.call('HSET', K.session(A.id), 'phone', A.phone, 'jid', A.jid, 'lid', A.lid, 'name', A.name,
  'fingerprint', A.fingerprint, 'lastPing', A.now, 'connection', 'open')
if status ~= 'connected' then redis.call('HSET', K.session(A.id), 'connectedAt', A.now) end
if redis.call('SISMEMBER', K.sessions_waiting(), A.id) == 1 then
  -- its proxy failed meanwhile: that it waits for another is said until one is found
  return reply({outcome = outcome, was = status, proxy = current})
end
-- its lane is served at once
redis.call('ZADD', K.lanes_due(), A.now, A.phone)
if outcome == 'moved' then
  move_to(A.id, 'reconnecting', 'STICKY_BINDING')
else
  move_to(A.id, 'connected', '')
end
return reply({outcome = outcome, was = status, proxy = current})
