-- Gives the slot of a session back and stops it: nobody scanned it, or it ended for good.
-- ARGV {now, id, reason, status, cap, onlyUnscanned?}   RETURNS {released}
if not session_exists(A.id) then return refuse('SESSION_NOT_FOUND') end
if A.onlyUnscanned and redis.call('EXISTS', K.session_temp(A.id)) == 0 then
  redis.call('ZREM', K.sessions_unscanned(), A.id)
  return reply({released = false})
end
local proxy = give_slot(A.id)
redis.call('DEL', K.session_temp(A.id), K.session_qr(A.id))
redis.call('ZREM', K.sessions_unscanned(), A.id)
redis.call('SREM', K.sessions_active(), A.id)
redis.call('SREM', K.sessions_waiting(), A.id)
redis.call('HSET', K.session(A.id), 'wanted', 'stopped')
move_to(A.id, A.status, A.reason)
return reply({released = proxy ~= ''})
