-- Makes a webhook, or changes one. A new one begins with what happens from now on, or after a number that is named.
-- ARGV {now, id, create, fields{}, most?, after?}
-- RETURNS {cursor}   REFUSES WEBHOOK_NOT_FOUND, TOO_MANY_WEBHOOKS
local there = redis.call('EXISTS', K.webhook(A.id)) == 1
if A.create and not there then
  if redis.call('ZCARD', K.webhooks_all()) >= A.most then return refuse('TOO_MANY_WEBHOOKS', {most = A.most}) end
  local last = tonumber(redis.call('GET', K.events_number())) or 0
  local cursor = given(A.after) and math.min(tonumber(A.after), last) or last
  redis.call('ZADD', K.webhooks_all(), A.now, A.id)
  redis.call('HSET', K.webhook(A.id), 'id', A.id, 'createdAt', A.now, 'cursor', string.format('%d', cursor))
  note('webhook.created', '', {webhookId = A.id})
elseif not A.create and not there then
  return refuse('WEBHOOK_NOT_FOUND')
end
local hook = K.webhook(A.id)
-- switched on again, or sent elsewhere: what failed before says nothing about what comes
if A.fields.url or A.fields.enabled == '1' then
  redis.call('HDEL', hook, 'failures', 'failingSince', 'nextTry', 'disabledReason', 'toldFailing')
end
for name, value in pairs(A.fields) do redis.call('HSET', hook, name, value) end
redis.call('HSET', hook, 'updatedAt', A.now)
redis.call('INCR', K.webhooks_changed())
redis.call('HINCRBY', hook, 'version', 1)
return reply({cursor = tonumber(redis.call('HGET', hook, 'cursor'))})
