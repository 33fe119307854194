-- Adds a proxy, or takes over a changed password. New ones are active until a check says otherwise.
-- ARGV {now, id, fields{host, port, user, password, addedAt}, cap}   RETURNS {added}
local added = not proxy_exists(A.id)
if added then
  enter_proxy(A.id, A.fields)
else
  if redis.call('HGET', K.proxy(A.id), 'password') ~= A.fields.password then
    redis.call('HSET', K.proxy(A.id), 'password', A.fields.password, 'nextCheckAt', 0)
    redis.call('ZADD', K.proxies_checks(), 0, A.id)
    note('proxy.password_changed', '', {proxy = A.id})
  end
  redis.call('HDEL', K.proxy(A.id), 'draining')
  redis.call('SREM', K.proxies_draining(), A.id)
end
refresh_proxy(A.id)
return reply({added = added})
