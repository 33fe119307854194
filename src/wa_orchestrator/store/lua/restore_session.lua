-- uses: shared_messages
-- Writes a session as a backup knows it: record, slot, binding, trust date, limits and the day's count, in one step.
-- ARGV {now, id, token, mode = backup|import|before, session (as collect_session tells), backup, proxy?, proxyFields?, scanBy, cap,
--       maxPerPhone}
-- token: a repeat changes nothing. before: puts back what a failed restore had changed. proxy: given by hand.
-- Without a free slot the session is written all the same, but stopped: the cap is never exceeded.
-- RETURNS {placed, proxy, repeated} | PHONE_ALREADY_REGISTERED | SESSION_EXISTS | PROXY_NOT_FOUND | PROXY_BAD | PROXY_FULL
--         | PHONE_ON_OTHER_PROXY
local S, id = A.session, A.id
local record, known = S.record, given(S.phone) and S.phone or {}
local phone = record.phone or ''
if session_get(id, 'restoredBy') == A.token then
  return reply({placed = session_get(id, 'proxy') ~= '', proxy = session_get(id, 'proxy'), repeated = true})
end
local ended = record.status == 'logged_out' or record.status == 'failed'
if A.mode == 'import' and session_exists(id) and session_get(id, 'movedAt') == '' then
  return refuse('SESSION_EXISTS', {sessionId = id})
end
if A.mode ~= 'before' and phone ~= '' and not ended then
  local others = live_sessions_of(phone, id)
  if #others >= (A.mode == 'import' and 1 or A.maxPerPhone) then
    return refuse('PHONE_ALREADY_REGISTERED', {sessionId = others[1], sessions = others})
  end
end
local by_hand = given(A.proxy)
if by_hand then
  if not proxy_exists(A.proxy) and not given(A.proxyFields) then return refuse('PROXY_NOT_FOUND', {proxy = A.proxy}) end
  if proxy_exists(A.proxy) and not is_healthy(A.proxy) then return refuse('PROXY_BAD', {proxy = A.proxy}) end
  if phone ~= '' and session_elsewhere(phone, A.proxy, id) then return refuse('PHONE_ON_OTHER_PROXY') end
  if not has_room(A.proxy) and session_get(id, 'proxy') ~= A.proxy then
    return refuse('PROXY_FULL', {proxy = A.proxy, slots = A.cap})
  end
end

local function add_missing(p, fields)
  if not proxy_exists(p) then enter_proxy(p, fields) end
end
for p, fields in pairs(S.proxies) do
  if not by_hand then add_missing(p, fields) end
end
if by_hand then add_missing(A.proxy, A.proxyFields) end

-- what is there now goes
local order = math.max(tonumber(session_get(id, 'runOrder')) or 0, tonumber(record.runOrder) or 0) + 1
local old_phone = session_get(id, 'phone')
give_slot(id)
if old_phone ~= '' and old_phone ~= phone then
  redis.call('SREM', K.phone_session(old_phone), id)
  if redis.call('EXISTS', K.lane(old_phone)) == 1 then plan_anew(old_phone) end
end
redis.call('DEL', K.session(id), K.session_temp(id), K.session_qr(id), K.session_commands(id), K.session_deleted(id))

-- the slot: by hand, with the phone's other sessions, its own of back then, or the least loaded
local runs, target = record.wanted == 'running', nil
if A.mode == 'import' then runs = not ended end
if runs or (record.proxy or '') ~= '' or by_hand then
  local own = (record.proxy or '') ~= '' and record.proxy or known.proxy or ''
  local home, shared
  if phone ~= '' then home, shared = home_of(phone, id) end
  if by_hand then target = A.proxy
  elseif shared then target = has_room(home) and home or nil
  elseif own ~= '' and is_healthy(own) and has_room(own) then target = own
  else target = choose_proxy() or (own ~= '' and proxy_exists(own) and has_room(own) and own) or nil end
end

local FRESH = {status = 1, reason = 1, wanted = 1, proxy = 1, runOrder = 1, ranOrder = 1, startError = 1, startErrorAt = 1, seq = 1,
  stream = 1, connection = 1, lastPing = 1, startedAt = 1, unacked = 1, lastReceivedAt = 1, rescuedAt = 1, rssBytes = 1,
  restoredBy = 1}
for name, value in pairs(record) do
  if not FRESH[name] and (name ~= 'movedAt' or A.mode == 'before') then redis.call('HSET', K.session(id), name, value) end
end
local linked = (record.jid or '') ~= ''
local wanted = (runs and target) and 'running' or (record.wanted == 'deleted' and 'deleted') or 'stopped'
local status, reason = linked and 'reconnecting' or 'pending', A.mode == 'before' and 'RESTORE_UNDONE' or 'RESTORED'
if wanted ~= 'running' then
  status, reason = ended and record.status or 'stopped', record.reason or ''
  if runs then reason = 'NO_PROXY_AVAILABLE' end
end
redis.call('HSET', K.session(id), 'id', id, 'wanted', wanted, 'runOrder', order, 'ranOrder', 0, 'startedAt', A.now, 'restoredBy', A.token,
  'status', status, 'reason', reason, 'statusAt', A.now, 'proxy', '')
if by_hand then redis.call('HSET', K.session(id), 'pinned', '1') end
if target then take_slot(target, id) end

redis.call('ZADD', K.sessions_all(), tonumber(record.created) or A.now, id)
redis.call('ZREM', K.sessions_unconfirmed(), id)
redis.call('ZREM', K.sessions_unscanned(), id)
redis.call('SREM', K.sessions_waiting(), id)
redis.call('SREM', K.sessions_active(), id)
if wanted == 'running' and linked then redis.call('SADD', K.sessions_active(), id) end
if wanted == 'running' and not linked then
  redis.call('SET', K.session_temp(id), target)
  redis.call('ZADD', K.sessions_unscanned(), A.scanBy, id)
end
local number = string.match(id, '^worker_(%d+)$')
if number and #number < 16 and tonumber(number) > (tonumber(redis.call('GET', K.sessions_number())) or 0) then
  redis.call('SET', K.sessions_number(), number)
end
if given(S.limits) then redis.call('SET', K.limits(id), S.limits) else redis.call('DEL', K.limits(id)) end

if phone ~= '' then
  if known.member or linked then redis.call('SADD', K.phone_session(phone), id) end
  local bound = redis.call('GET', K.phone_proxy(phone))
  if linked and target then
    bind_phone(phone, target)
  elseif not bound and given(known.proxy) and proxy_exists(known.proxy) then
    bind_phone(phone, known.proxy)
  end
  -- trust counts from the earliest connection anybody remembers
  local first = tonumber(known.firstConnectedAt)
  local now_first = tonumber(redis.call('HGET', K.phone(phone), 'firstConnectedAt'))
  if first and (A.mode == 'before' or not now_first or first < now_first) then
    redis.call('HSET', K.phone(phone), 'firstConnectedAt', string.format('%d', first))
  end
  -- a lane that is there knows what was sent since the backup; without one the backup's day count goes on
  if redis.call('EXISTS', K.lane(phone)) == 0 and given(S.lane) and next(S.lane) ~= nil then
    for name, value in pairs(S.lane) do redis.call('HSET', K.lane(phone), name, value) end
    if given(S.minute) then
      for _, at in ipairs(S.minute) do redis.call('RPUSH', K.lane_minute(phone), at) end
      redis.call('EXPIRE', K.lane_minute(phone), 120)
    end
  end
  if linked or redis.call('EXISTS', K.lane(phone)) == 1 then plan_anew(phone) end
end
note('session.restored', id, {backup = A.backup, proxy = target or '', undone = A.mode == 'before'})
return reply({placed = target ~= nil or not runs, proxy = target or '', repeated = false})
