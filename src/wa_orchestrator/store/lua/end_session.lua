-- A session that cannot run as it is: failed, with the reason. It keeps its slot; starting it again is the operator's decision.
-- ARGV {now, id, reason}   RETURNS {ended}
if not session_exists(A.id) then return refuse('SESSION_NOT_FOUND') end
if session_get(A.id, 'wanted') ~= 'running' then return reply({ended = false}) end
redis.call('HSET', K.session(A.id), 'wanted', 'stopped')
redis.call('DEL', K.session_qr(A.id))
redis.call('SREM', K.sessions_active(), A.id)
redis.call('SREM', K.sessions_waiting(), A.id)
move_to(A.id, 'failed', A.reason)
return reply({ended = true})
