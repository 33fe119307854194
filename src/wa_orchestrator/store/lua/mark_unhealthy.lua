-- The watchdog found a worker silent or deaf: unhealthy, and restarted once for that run.
-- ARGV {now, id, runOrder, reason}   RETURNS {changed} | SESSION_NOT_FOUND
if not session_exists(A.id) then return refuse('SESSION_NOT_FOUND') end
if session_get(A.id, 'wanted') ~= 'running' or tonumber(session_get(A.id, 'runOrder')) ~= A.runOrder then
  return reply({changed = false})
end
move_to(A.id, 'unhealthy', A.reason)
redis.call('HINCRBY', K.session(A.id), 'runOrder', 1)
redis.call('HINCRBY', K.session(A.id), 'restarts', 1)
redis.call('HSET', K.session(A.id), 'startedAt', A.now, 'rescuedAt', A.now)
return reply({changed = true})
