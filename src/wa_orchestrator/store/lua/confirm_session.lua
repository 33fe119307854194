-- The worker of a new session runs: the session is complete and no longer removed as half-made.
-- ARGV {now, id}   RETURNS {confirmed}
if not session_exists(A.id) then return refuse('SESSION_NOT_FOUND') end
redis.call('ZREM', K.sessions_unconfirmed(), A.id)
return reply({confirmed = true})
