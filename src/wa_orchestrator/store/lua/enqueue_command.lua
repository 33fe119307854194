-- Leaves a command for a worker; its waiting claim is woken.
-- ARGV {now, id, commandId, command}   RETURNS {queued} | SESSION_NOT_FOUND | SESSION_NOT_RUNNING
if not session_exists(A.id) then return refuse('SESSION_NOT_FOUND') end
if session_get(A.id, 'wanted') ~= 'running' then return refuse('SESSION_NOT_RUNNING') end
redis.call('HSET', K.session_commands(A.id), A.commandId, A.command)
redis.call('EXPIRE', K.session_commands(A.id), 3600)
redis.call('PUBLISH', K.wake(), A.id)
return reply({queued = true})
