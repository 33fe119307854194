-- Removes a proxy without sessions. With drain it takes no new ones, and the sessions to move are named.
-- ARGV {now, id, drain, cap}   RETURNS {removed, sessions[]} | PROXY_NOT_FOUND | PROXY_IN_USE
if not proxy_exists(A.id) then return refuse('PROXY_NOT_FOUND', {proxy = A.id}) end
local sessions = redis.call('SMEMBERS', K.proxy_sessions(A.id))
table.sort(sessions)
if #sessions > 0 then
  if not A.drain then return refuse('PROXY_IN_USE', {proxy = A.id, sessions = sessions}) end
  if not is_draining(A.id) then
    redis.call('HSET', K.proxy(A.id), 'draining', '1')
    redis.call('SADD', K.proxies_draining(), A.id)
    note('proxy.draining', '', {proxy = A.id, sessions = #sessions})
  end
  refresh_proxy(A.id)
  return reply({removed = false, sessions = sessions})
end
-- phones bound here without a live session get another proxy when they come back
for _, phone in ipairs(redis.call('SMEMBERS', K.proxy_phones(A.id))) do redis.call('DEL', K.phone_proxy(phone)) end
redis.call('SREM', K.proxies_all(), A.id)
redis.call('ZREM', K.proxies_available(), A.id)
redis.call('ZREM', K.proxies_checks(), A.id)
redis.call('SREM', K.proxies_draining(), A.id)
redis.call('DEL', K.proxy(A.id), K.proxy_sessions(A.id), K.proxy_phones(A.id), K.counter_proxy(A.id),
  K.proxy_status(A.id), K.proxy_bad_at(A.id))
note('proxy.removed', '', {proxy = A.id})
return reply({removed = true, sessions = {}})
