-- Moves a session to another proxy: slot, binding and session in one step. Its worker must be restarted there.
-- ARGV {now, id, from?, to?, reason, cap, healthy?}
-- from: only if it is still there (a second failover of the same fault changes nothing). to: empty chooses. healthy: the present proxy
-- works, so without a free slot elsewhere nothing changes.
-- RETURNS {moved, proxy, waiting} | SESSION_NOT_FOUND | PROXY_NOT_FOUND | PROXY_BAD | PROXY_FULL
--         | PHONE_ON_OTHER_PROXY
if not session_exists(A.id) then return refuse('SESSION_NOT_FOUND') end
local current = session_get(A.id, 'proxy')
if given(A.from) and current ~= A.from then return reply({moved = false, proxy = current, waiting = false}) end

-- a session that holds no slot is not on any proxy that could fail
if current == '' and not given(A.to) then return reply({moved = false, proxy = '', waiting = false}) end

local phone = session_get(A.id, 'phone')
local linked = session_get(A.id, 'jid') ~= ''
local running = session_get(A.id, 'wanted') == 'running'
local target
if given(A.to) then
  target = A.to
  if target == current then return reply({moved = false, proxy = current, waiting = false}) end
  if not proxy_exists(target) then return refuse('PROXY_NOT_FOUND', {proxy = target}) end
  if not is_healthy(target) then return refuse('PROXY_BAD', {proxy = target}) end
  local elsewhere = phone ~= '' and session_elsewhere(phone, target, A.id)
  if elsewhere then return refuse('PHONE_ON_OTHER_PROXY', {sessionId = elsewhere}) end
  if not has_room(target) then return refuse('PROXY_FULL', {proxy = target, slots = A.cap}) end
else
  -- the phone's own proxy first: another session of it may have been moved there a moment ago
  local own, shared
  if phone ~= '' then own, shared = home_of(phone, A.id) end
  if own and own ~= current and is_healthy(own) then
    -- two exit addresses for one phone are worse than waiting for a slot
    if has_room(own) then target = own elseif not shared then target = choose_proxy(current) end
  else
    target = choose_proxy(current)
  end
end

-- given by hand for a phone that was never linked: another exit address would be a surprise, so it waits for this one
local insists = not given(A.to) and not linked and session_get(A.id, 'pinned') == '1' and not A.healthy
if insists then target = nil end
if not target then
  -- an ended session waits for nothing; one whose proxy works stays where it is
  if not running or A.healthy then return reply({moved = false, proxy = current, waiting = false}) end
  redis.call('SADD', K.sessions_waiting(), A.id)
  local why = insists and 'GIVEN_PROXY_FAILED' or 'NO_PROXY_AVAILABLE'
  if move_to(A.id, 'disconnected', why) then note('session.waiting', A.id, {proxy = current, reason = why}) end
  return reply({moved = false, proxy = current, waiting = true})
end

give_slot(A.id)
take_slot(target, A.id)
redis.call('SREM', K.sessions_waiting(), A.id)
redis.call('HINCRBY', K.session(A.id), 'runOrder', 1)
redis.call('HSET', K.session(A.id), 'startedAt', A.now)
if given(A.to) then redis.call('HSET', K.session(A.id), 'pinned', '1') end
if phone ~= '' and linked then
  -- the binding follows if it failed too; one to another healthy proxy is not ours to change
  local bound = redis.call('GET', K.phone_proxy(phone)) or current
  if given(A.to) or bound == current or not is_healthy(bound) then bind_phone(phone, target) end
else
  redis.call('SET', K.session_temp(A.id), target)
end
note('session.moved', A.id, {from = current, to = target, reason = A.reason, running = running})
-- an ended session only changes its slot; starting it stays the operator's decision
if running then move_to(A.id, linked and 'reconnecting' or 'pending', A.reason) end
return reply({moved = true, proxy = target, waiting = false, was = current})
