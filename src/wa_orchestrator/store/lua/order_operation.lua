-- Orders a backup, restore or export: one at a time over all orchestrators.
-- ARGV {now, id, kind, arguments, aliveMs}   RETURNS {id} | BACKUP_BUSY
local key = K.backups_operation()
local now = redis.call('HMGET', key, 'state', 'aliveUntil', 'id', 'kind')
-- whoever lives says so again; a sign given by a clock that was ahead must not outlive its giver by as much
if (tonumber(now[2]) or 0) > A.now + A.aliveMs then
  now[2] = A.now + A.aliveMs
  redis.call('HSET', key, 'aliveUntil', now[2])
end
if (now[1] == 'ordered' or now[1] == 'running') and (tonumber(now[2]) or 0) > A.now then
  return refuse('BACKUP_BUSY', {operationId = now[3], kind = now[4]})
end
redis.call('DEL', key)
redis.call('HSET', key, 'id', A.id, 'kind', A.kind, 'state', 'ordered', 'arguments', A.arguments, 'orderedAt', A.now,
  'aliveUntil', A.now + A.aliveMs, 'phase', 'ordered')
return reply({id = A.id})
