-- The leader tells the others what became of a session's worker: which order runs now (0: none), or why it could not start.
-- ARGV {now, id, ranOrder, error}   RETURNS {noted}
if not session_exists(A.id) then return reply({noted = false}) end
redis.call('HSET', K.session(A.id), 'ranOrder', A.ranOrder, 'startError', A.error, 'startErrorAt', given(A.error) and A.now or 0)
return reply({noted = true})
