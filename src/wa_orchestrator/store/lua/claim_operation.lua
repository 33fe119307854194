-- The leader takes up what was ordered; once.
-- ARGV {now, aliveMs}   RETURNS {claimed}
local key = K.backups_operation()
local now = redis.call('HMGET', key, 'state', 'aliveUntil')
if now[1] ~= 'ordered' or (tonumber(now[2]) or 0) <= A.now then return reply({claimed = false}) end
redis.call('HSET', key, 'state', 'running', 'startedAt', A.now, 'aliveUntil', A.now + A.aliveMs)
return reply({claimed = true})
