-- Revokes an API key for good; its name is free again.
-- ARGV {now, id}   RETURNS {name} | KEY_NOT_FOUND
local text = redis.call('HGET', K.api_keys(), A.id)
if not text then return refuse('KEY_NOT_FOUND') end
local name = cjson.decode(text).name
redis.call('HDEL', K.api_keys(), A.id)
redis.call('HDEL', K.api_keys_used(), A.id)
redis.call('HDEL', K.api_key_names(), name)
note('key.revoked', '', {name = name})
return reply({name = name})
