-- The operator's (or the watchdog's) order: start, restart or stop. Repeating start and stop changes nothing.
-- ARGV {now, id, order = start|restart|stop|delete, reason, cap, onlyIfRunOrder?, scanBy, forget?}
-- RETURNS {changed, wanted, runOrder} | SESSION_NOT_FOUND | SESSION_MOVED | NO_PROXY_AVAILABLE | STICKY_PROXY_FULL
if not session_exists(A.id) then return refuse('SESSION_NOT_FOUND') end
local wanted, status = session_get(A.id, 'wanted'), session_get(A.id, 'status')
local order = tonumber(session_get(A.id, 'runOrder')) or 1
if given(A.onlyIfRunOrder) and order ~= A.onlyIfRunOrder then
  return reply({changed = false, wanted = wanted, runOrder = order})
end

if A.order == 'stop' or A.order == 'delete' then
  if A.order == 'delete' then
    redis.call('HSET', K.session(A.id), 'wanted', 'deleted')
    if A.forget then redis.call('HSET', K.session(A.id), 'forget', '1') end
  elseif wanted ~= 'deleted' then
    redis.call('HSET', K.session(A.id), 'wanted', 'stopped')
  end
  redis.call('DEL', K.session_qr(A.id))
  redis.call('SREM', K.sessions_waiting(), A.id)
  redis.call('SREM', K.sessions_active(), A.id)
  -- what ended by itself keeps telling why
  if status ~= 'logged_out' and status ~= 'failed' then move_to(A.id, 'stopped', A.reason) end
  return reply({changed = wanted == 'running', wanted = session_get(A.id, 'wanted'), runOrder = order})
end

if wanted == 'deleted' then return refuse('SESSION_NOT_FOUND') end
-- it runs on another server now: two of them would drive each other out
if session_get(A.id, 'movedAt') ~= '' then return refuse('SESSION_MOVED') end
if A.order == 'start' and wanted == 'running' then
  return reply({changed = false, wanted = wanted, runOrder = order})
end
local linked = session_get(A.id, 'jid') ~= ''
local current, phone = session_get(A.id, 'proxy'), session_get(A.id, 'phone')
local own = phone ~= '' and redis.call('GET', K.phone_proxy(phone)) or nil
if phone ~= '' and not (linked and own and is_healthy(own)) then own = home_of(phone, A.id) end
-- without a slot (it was given back meanwhile) one is taken, the phone's own first; a linked phone that was bound
-- elsewhere while this session was ended goes there and nowhere else
if current == '' or (linked and own and own ~= current and is_healthy(own)) then
  local target
  if own and is_healthy(own) then
    if not has_room(own) then return refuse('STICKY_PROXY_FULL', {proxy = own}) end
    target = own
  else
    target = choose_proxy()
  end
  if not target then return refuse('NO_PROXY_AVAILABLE') end
  give_slot(A.id)
  take_slot(target, A.id)
  redis.call('SREM', K.sessions_waiting(), A.id)
  if current ~= '' then note('session.moved', A.id, {from = current, to = target, reason = 'STICKY_BINDING'}) end
  current = target
end
-- whoever starts it wants to scan it: the time to do so begins anew
if not linked and (tonumber(A.scanBy) or 0) > 0 then
  redis.call('SET', K.session_temp(A.id), current)
  redis.call('ZADD', K.sessions_unscanned(), A.scanBy, A.id)
end
if phone ~= '' then redis.call('SADD', K.phone_session(phone), A.id) end
order = redis.call('HINCRBY', K.session(A.id), 'runOrder', 1)
redis.call('HSET', K.session(A.id), 'wanted', 'running', 'startedAt', A.now)
redis.call('DEL', K.session_qr(A.id))
if linked then redis.call('SADD', K.sessions_active(), A.id) end
if redis.call('SISMEMBER', K.sessions_waiting(), A.id) == 0 then
  move_to(A.id, linked and 'reconnecting' or 'pending', A.reason)
end
return reply({changed = true, wanted = 'running', runOrder = order})
