-- Changes some fields of an API key; a new name must be free.
-- ARGV {now, id, set{}}   RETURNS {record, usedAt} | KEY_NOT_FOUND | KEY_NAME_TAKEN
local text = redis.call('HGET', K.api_keys(), A.id)
if not text then return refuse('KEY_NOT_FOUND') end
local record = cjson.decode(text)
local name = A.set.name
if given(name) and name ~= record.name then
  if redis.call('HSETNX', K.api_key_names(), name, A.id) == 0 then return refuse('KEY_NAME_TAKEN') end
  redis.call('HDEL', K.api_key_names(), record.name)
end
for field, value in pairs(A.set) do record[field] = value end
redis.call('HSET', K.api_keys(), A.id, cjson.encode(record))
note('key.changed', '', {name = record.name})
return reply({record = record, usedAt = redis.call('HGET', K.api_keys_used(), A.id) or ''})
