-- The fate of a file that came in: ready or failed. A file that is ready stays so.
-- ARGV {now, session, id, keepMs, set{state, …}}   RETURNS {outcome = moved | known | unknown}
if not session_exists(A.session) then return reply({outcome = 'unknown'}) end
local record = K.inbound_media(A.session .. ':' .. A.id)
if redis.call('HGET', record, 'state') == 'ready' then return reply({outcome = 'known'}) end
for name, value in pairs(A.set) do redis.call('HSET', record, name, value) end
redis.call('PEXPIRE', record, A.keepMs)
redis.call('ZADD', K.inbound_media_of(A.session), A.now, A.id)
redis.call('PEXPIRE', K.inbound_media_of(A.session), A.keepMs)
return reply({outcome = 'moved'})
