-- All that the store knows about a session and that must survive: as one moment.
-- ARGV {now, id, phone?}   phone: of a session that is not here (its binding is wanted all the same)
-- RETURNS {record, phone{number, proxy, firstConnectedAt, member}, proxies{}, lane, minute, limits}
local function hash(key)
  local found, flat = {}, redis.call('HGETALL', key)
  for i = 1, #flat, 2 do found[flat[i]] = flat[i + 1] end
  return found
end
local record = hash(K.session(A.id))
local phone = record.phone or ''
if phone == '' and given(A.phone) then phone = A.phone end
local answer = {record = record, proxies = {}, limits = redis.call('GET', K.limits(A.id)) or ''}
local function with_proxy(p)
  if not p or p == '' or not proxy_exists(p) then return end
  local f = redis.call('HMGET', K.proxy(p), 'host', 'port', 'user', 'password', 'addedAt')
  answer.proxies[p] = {host = f[1] or '', port = f[2] or '', user = f[3] or '', password = f[4] or '', addedAt = f[5] or 0}
end
with_proxy(record.proxy)
if phone ~= '' then
  local bound = redis.call('GET', K.phone_proxy(phone)) or ''
  answer.phone = {number = phone, proxy = bound, member = redis.call('SISMEMBER', K.phone_session(phone), A.id) == 1,
    firstConnectedAt = redis.call('HGET', K.phone(phone), 'firstConnectedAt') or ''}
  with_proxy(bound)
  answer.lane = hash(K.lane(phone))
  answer.minute = redis.call('LRANGE', K.lane_minute(phone), 0, -1)
end
return reply(answer)
