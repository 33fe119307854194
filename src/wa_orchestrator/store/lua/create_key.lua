-- Keeps a new API key. Its name stands in the audit trail, so no other key may have it.
-- ARGV {now, id, name, record{}}   RETURNS {created} | KEY_NAME_TAKEN
if redis.call('HSETNX', K.api_key_names(), A.name, A.id) == 0 then return refuse('KEY_NAME_TAKEN') end
redis.call('HSET', K.api_keys(), A.id, cjson.encode(A.record))
note('key.created', '', {name = A.name})
return reply({created = true})
