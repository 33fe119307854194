-- Ends an operation and tells the journal, once.
-- ARGV {now, id, state = done|failed, result, failure, event, data}   RETURNS {held}
local key = K.backups_operation()
local now = redis.call('HMGET', key, 'id', 'state')
if now[1] ~= A.id or (now[2] ~= 'running' and now[2] ~= 'ordered') then return reply({held = false}) end
redis.call('HSET', key, 'state', A.state, 'result', A.result, 'failure', A.failure, 'endedAt', A.now, 'phase', A.state,
  'current', '')
redis.call('HDEL', key, 'arguments')
note(A.event, '', A.data)
return reply({held = true})
