-- Counts a restart that nobody ordered, on a session that still exists.
-- ARGV {now, id}   RETURNS {restarts}
if not session_exists(A.id) then return refuse('SESSION_NOT_FOUND') end
return reply({restarts = redis.call('HINCRBY', K.session(A.id), 'restarts', 1)})
