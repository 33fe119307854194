-- A session's notes are written anew. A session that is gone, or being deleted, is not brought back by it.
-- ARGV {now, id, metadata (JSON)}   RETURNS {changed}; refusals: SESSION_NOT_FOUND
if not session_exists(A.id) or session_get(A.id, 'wanted') == 'deleted' then return refuse('SESSION_NOT_FOUND') end
redis.call('HSET', K.session(A.id), 'metadata', A.metadata)
return reply({changed = true})
