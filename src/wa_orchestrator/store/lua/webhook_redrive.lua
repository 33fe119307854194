-- Takes events off a webhook's dead-letter list: back to the events that wait for its receiver, or away for good.
-- ARGV {now, id, numbers?[], limit, drop}   RETURNS {moved, left}   REFUSES WEBHOOK_NOT_FOUND
local hook = K.webhook(A.id)
if redis.call('EXISTS', hook) == 0 then return refuse('WEBHOOK_NOT_FOUND') end
local numbers = given(A.numbers) and A.numbers or redis.call('ZRANGE', K.webhook_dead_order(A.id), 0, A.limit - 1)
local moved, waiting = 0, 0
for _, number in ipairs(numbers) do
  local text = redis.call('HGET', K.webhook_dead(A.id), number)
  if text then
    if not A.drop then
      local letter = cjson.decode(text)
      -- by number: it comes before whatever of its session waits already
      waiting = waiting + redis.call('ZADD', K.webhook_waiting(A.id .. ':' .. letter.session), number, letter.event)
      local state = cjson.encode({failures = 0, since = 0, nextTry = 0, error = ''})
      redis.call('HSET', K.webhook_parked(A.id), letter.session, state)
    end
    redis.call('HDEL', K.webhook_dead(A.id), number)
    redis.call('ZREM', K.webhook_dead_order(A.id), number)
    moved = moved + 1
  end
end
if moved > 0 then
  redis.call('HINCRBY', hook, 'waiting', waiting)
  redis.call('HDEL', hook, 'failures', 'failingSince', 'nextTry')
  redis.call('INCR', K.webhooks_changed())
  redis.call('HINCRBY', hook, 'version', 1)
end
return reply({moved = moved, left = redis.call('ZCARD', K.webhook_dead_order(A.id))})
