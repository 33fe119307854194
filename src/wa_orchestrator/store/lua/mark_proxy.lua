-- The verdict of a check: active, bad or testing, with what was measured.
-- ARGV {now, id, status, set{}, error?, kind?, cap}   RETURNS {was, status, sessions[]} | PROXY_NOT_FOUND
if not proxy_exists(A.id) then return refuse('PROXY_NOT_FOUND', {proxy = A.id}) end
local was = proxy_status(A.id)
redis.call('SET', K.proxy_status(A.id), A.status)
-- the exit address of a phone should never change: who watches wants to know
local exit_was = redis.call('HGET', K.proxy(A.id), 'exitIp')
if given(A.set.exitIp) and exit_was and exit_was ~= A.set.exitIp then
  note('proxy.exit_ip_changed', '', {proxy = A.id, was = exit_was, now = A.set.exitIp})
end
for name, value in pairs(A.set) do redis.call('HSET', K.proxy(A.id), name, value) end
if given(A.set.nextCheckAt) then redis.call('ZADD', K.proxies_checks(), A.set.nextCheckAt, A.id) end
if given(A.error) then
  redis.call('HSET', K.proxy(A.id), 'lastError', A.error, 'lastErrorKind', A.kind, 'lastErrorAt', A.now)
end
if A.status == 'bad' then
  if was ~= 'bad' then
    -- testing again and failing again is the same illness, not a new one
    redis.call('SET', K.proxy_bad_at(A.id), A.now, 'NX')
    if was == 'active' then note('proxy.bad', '', {proxy = A.id, kind = A.kind, error = A.error, sessions = proxy_load(A.id)}) end
  end
elseif A.status == 'active' then
  redis.call('DEL', K.proxy_bad_at(A.id))
  if not given(A.error) then redis.call('HDEL', K.proxy(A.id), 'lastError', 'lastErrorKind', 'lastErrorAt') end
  if was ~= 'active' then note('proxy.recovered', '', {proxy = A.id}) end
end
refresh_proxy(A.id)
local sessions = redis.call('SMEMBERS', K.proxy_sessions(A.id))
table.sort(sessions)
-- It was bad and was not left in time, while its phones found another proxy: two exit addresses for one phone must not be,
-- so these sessions wait until they are moved to where their phone belongs now.
if A.status == 'active' and was ~= 'active' then
  for _, id in ipairs(sessions) do
    local phone = session_get(id, 'phone')
    local own = phone ~= '' and redis.call('GET', K.phone_proxy(phone))
    if own and own ~= A.id and session_get(id, 'jid') ~= '' and session_get(id, 'wanted') == 'running' then
      redis.call('SADD', K.sessions_waiting(), id)
      move_to(id, 'disconnected', 'PHONE_ON_OTHER_PROXY')
    end
  end
end
return reply({was = was, status = A.status, sessions = sessions})
