-- One step of the alert desk: how far it read, what it keeps in mind and what it has to tell, all at once or not at all.
-- ARGV {now, version, position, set{}, drop[], notices[{json, type, session, data, send}], keep, longest, spare}
-- RETURNS {done, version}: done is false when somebody else has been at the desk; nothing is written then.
local version = tonumber(redis.call('HGET', K.alerts_state(), 'version')) or 0
if version ~= A.version then return reply({done = false, version = version}) end
version = version + 1
redis.call('HSET', K.alerts_state(), 'version', version, 'position', A.position)
for field, record in pairs(A.set) do redis.call('HSET', K.alerts_desk(), field, record) end
for _, field in ipairs(A.drop) do redis.call('HDEL', K.alerts_desk(), field) end
for _, notice in ipairs(A.notices) do
  note(notice.type, notice.session, notice.data)
  redis.call('LPUSH', K.alerts_recent(), notice.json)
  if notice.send then redis.call('RPUSH', K.alerts_outbox(), notice.json) end
end
if #A.notices > 0 then redis.call('LTRIM', K.alerts_recent(), 0, A.keep - 1) end
-- too many wait (Telegram is away): the oldest are left out, but never those that may be under way just now
while redis.call('LLEN', K.alerts_outbox()) > A.longest do
  redis.call('LREM', K.alerts_outbox(), 1, redis.call('LINDEX', K.alerts_outbox(), A.spare))
  redis.call('HINCRBY', K.alerts_channel(), 'leftOut', 1)
end
return reply({done = true, version = version})
