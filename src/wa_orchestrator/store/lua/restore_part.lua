-- Puts back what a backup carries besides sessions. Nothing newer is overwritten: without merge only a key that is not there at all
-- is written, with merge only the entries that are missing.
-- ARGV {now, key, type = string|hash|set|sorted set, value, merge}   RETURNS {added}
if not A.merge and redis.call('EXISTS', A.key) == 1 then return reply({added = 0}) end
local added = 0
if A.type == 'string' then
  if redis.call('SETNX', A.key, A.value) == 1 then added = 1 end
elseif A.type == 'hash' then
  for name, value in pairs(A.value) do added = added + redis.call('HSETNX', A.key, name, value) end
elseif A.type == 'set' then
  for _, member in ipairs(A.value) do added = added + redis.call('SADD', A.key, member) end
elseif A.type == 'sorted set' then
  for member, score in pairs(A.value) do added = added + redis.call('ZADD', A.key, 'NX', score, member) end
end
return reply({added = added})
