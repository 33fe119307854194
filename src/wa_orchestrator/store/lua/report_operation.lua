-- Progress of the operation under way, and the sign that its process lives.
-- ARGV {now, id, aliveMs, set{}?}   RETURNS {held}
local key = K.backups_operation()
local now = redis.call('HMGET', key, 'id', 'state')
if now[1] ~= A.id or now[2] ~= 'running' then return reply({held = false}) end
redis.call('HSET', key, 'aliveUntil', A.now + A.aliveMs)
if given(A.set) then
  for name, value in pairs(A.set) do redis.call('HSET', key, name, value) end
end
return reply({held = true})
