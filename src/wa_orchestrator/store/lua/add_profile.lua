-- Puts a profile into stock, and its proxy into the pool if it is new there.
-- ARGV {now, phone, label, proxy?, proxyFields?, cap}   RETURNS {added, why = known | in_use | nil}
if redis.call('HEXISTS', K.profiles(), A.phone) == 1 then return reply({added = false, why = 'known'}) end
if #live_sessions_of(A.phone) > 0 then return reply({added = false, why = 'in_use'}) end
if given(A.proxy) and not proxy_exists(A.proxy) then enter_proxy(A.proxy, A.proxyFields) end
local last = redis.call('ZRANGE', K.profiles_all(), -1, -1, 'WITHSCORES')
redis.call('ZADD', K.profiles_all(), (tonumber(last[2]) or 0) + 1, A.phone)
redis.call('HSET', K.profiles(), A.phone,
  cjson.encode({label = A.label, proxy = given(A.proxy) and A.proxy or '', addedAt = A.now}))
return reply({added = true})
