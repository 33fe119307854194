-- A worker is about to run, or was found dead: what an earlier run reported no longer counts.
-- ARGV {now, id, reason}   RETURNS {changed}
if not session_exists(A.id) then return refuse('SESSION_NOT_FOUND') end
if session_get(A.id, 'wanted') ~= 'running' then return reply({changed = false}) end
redis.call('HSET', K.session(A.id), 'startedAt', A.now, 'connection', '')
redis.call('DEL', K.session_qr(A.id))
if redis.call('SISMEMBER', K.sessions_waiting(), A.id) == 1 then return reply({changed = false}) end
local next_status = session_get(A.id, 'jid') ~= '' and 'reconnecting' or 'pending'
if session_get(A.id, 'status') == next_status then return reply({changed = false}) end
return reply({changed = move_to(A.id, next_status, A.reason)})
