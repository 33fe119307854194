-- The proxy a session waited for is healthy again: it goes on there, or where its phone was bound meanwhile.
-- ARGV {now, id, cap}   RETURNS {resumed}
-- resumed is false when it did not wait, or when it goes on waiting because the phone's own proxy has no room.
if not session_exists(A.id) then return refuse('SESSION_NOT_FOUND') end
if redis.call('SISMEMBER', K.sessions_waiting(), A.id) == 0 then return reply({resumed = false}) end
if session_get(A.id, 'wanted') ~= 'running' then
  redis.call('SREM', K.sessions_waiting(), A.id)
  return reply({resumed = false})
end
local linked = session_get(A.id, 'jid') ~= ''
local current, reason = session_get(A.id, 'proxy'), 'PROXY_RECOVERED'
local bound = linked and redis.call('GET', K.phone_proxy(session_get(A.id, 'phone'))) or current
if bound ~= current and is_healthy(bound) then
  if not has_room(bound) then return reply({resumed = false}) end
  give_slot(A.id)
  take_slot(bound, A.id)
  reason = 'STICKY_BINDING'
  note('session.moved', A.id, {from = current, to = bound, reason = reason})
end
redis.call('SREM', K.sessions_waiting(), A.id)
redis.call('HINCRBY', K.session(A.id), 'runOrder', 1)
redis.call('HSET', K.session(A.id), 'startedAt', A.now)
move_to(A.id, linked and 'reconnecting' or 'pending', reason)
return reply({resumed = true})
