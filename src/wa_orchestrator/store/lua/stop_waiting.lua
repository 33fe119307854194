-- The proxy a session waited for is healthy again: it goes on where it was.
-- ARGV {now, id, cap}   RETURNS {resumed}
if not session_exists(A.id) then return refuse('SESSION_NOT_FOUND') end
if redis.call('SREM', K.sessions_waiting(), A.id) == 0 then return reply({resumed = false}) end
if session_get(A.id, 'wanted') ~= 'running' then return reply({resumed = false}) end
redis.call('HINCRBY', K.session(A.id), 'runOrder', 1)
redis.call('HSET', K.session(A.id), 'startedAt', A.now)
move_to(A.id, session_get(A.id, 'jid') ~= '' and 'reconnecting' or 'pending', 'PROXY_RECOVERED')
return reply({resumed = true})
