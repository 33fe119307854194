-- uses: shared_webhooks
-- Makes a session: record, slot and temporary binding in one step.
-- ARGV {now, token, sessionId?, phone?, proxy?, proxyFields?, allowAdditional, rebind, maxPerPhone, cap, label, metadata,
--       confirmBy, scanBy, maker}
-- RETURNS {sessionId, proxy, replayed} | SESSION_EXISTS | PHONE_ALREADY_REGISTERED | PHONE_ON_OTHER_PROXY | PROXY_NOT_FOUND
--         | PROXY_BAD | PROXY_FULL | STICKY_PROXY_FULL | NO_PROXY_AVAILABLE
-- The token makes a repeat after a lost answer find the first result.
local before = redis.call('GET', K.provision_token(A.token))
if before and session_exists(before) then
  return reply({sessionId = before, proxy = session_get(before, 'proxy'), replayed = true})
end

if given(A.sessionId) and session_exists(A.sessionId) then
  return refuse('SESSION_EXISTS', {sessionId = A.sessionId})
end

local phone = given(A.phone) and A.phone or ''
local others = phone ~= '' and live_sessions_of(phone) or {}
if #others > 0 and (not A.allowAdditional or #others >= A.maxPerPhone) then
  return refuse('PHONE_ALREADY_REGISTERED', {sessionId = others[1], sessions = others,
    message = 'This phone is already on the live session ' .. others[1] .. '.'})
end

-- 1. the proxy given by hand  2. the phone's own  3. the least loaded
local pinned = given(A.proxy)
local chosen
if pinned then
  chosen = A.proxy
  local known = proxy_exists(chosen)
  if not known and not given(A.proxyFields) then return refuse('PROXY_NOT_FOUND', {proxy = chosen}) end
  if known and not is_healthy(chosen) then return refuse('PROXY_BAD', {proxy = chosen}) end
  local elsewhere = phone ~= '' and session_elsewhere(phone, chosen)
  if elsewhere then return refuse('PHONE_ON_OTHER_PROXY', {sessionId = elsewhere}) end
  if not has_room(chosen) then return refuse('PROXY_FULL', {proxy = chosen, slots = A.cap}) end
else
  -- other live sessions of this phone may not be connected yet: their proxy is the phone's all the same
  local sticky
  if phone ~= '' then sticky = home_of(phone) end
  if sticky and is_healthy(sticky) and (#others > 0 or not A.rebind or has_room(sticky)) then
    if not has_room(sticky) then return refuse('STICKY_PROXY_FULL', {proxy = sticky}) end
    chosen = sticky
  else
    chosen = choose_proxy()
  end
  if not chosen then return refuse('NO_PROXY_AVAILABLE') end
  -- rebind is an order like a proxy given by hand: when the phone connects, its binding follows
  if A.rebind and sticky and is_healthy(sticky) and chosen ~= sticky then pinned = true end
end

local id = A.sessionId
if not given(id) then
  repeat id = 'worker_' .. redis.call('INCR', K.sessions_number()) until not session_exists(id)
end

if not proxy_exists(chosen) then enter_proxy(chosen, A.proxyFields) end
-- webhooks made with an earlier session of this name (the WAHA facade) are not for this one
for _, hook in ipairs(redis.call('ZRANGE', K.webhooks_all(), 0, -1)) do
  local found = redis.call('HMGET', K.webhook(hook), 'options', 'sessions')
  if (found[1] or ''):find('wahaEvents', 1, true) and found[2] == cjson.encode({id}) then drop_webhook(hook) end
end
redis.call('DEL', K.session_deleted(id), K.session_events(id), K.session_commands(id), K.session_qr(id))
redis.call('HSET', K.session(id), 'id', id, 'status', 'pending', 'reason', '', 'wanted', 'running', 'created', A.now,
  'phone', phone, 'expectedPhone', phone, 'pinned', pinned and '1' or '', 'label', A.label, 'metadata', A.metadata,
  'maker', A.maker, 'runOrder', 1, 'startedAt', A.now, 'statusAt', A.now)
take_slot(chosen, id)
redis.call('SET', K.session_temp(id), chosen)
redis.call('ZADD', K.sessions_all(), A.now, id)
redis.call('ZADD', K.sessions_unconfirmed(), A.confirmBy, id)
redis.call('ZADD', K.sessions_unscanned(), A.scanBy, id)
if phone ~= '' then redis.call('SADD', K.phone_session(phone), id) end
redis.call('SET', K.provision_token(A.token), id, 'EX', 600)
note('session.created', id, {proxy = chosen})
return reply({sessionId = id, proxy = chosen, replayed = false})
