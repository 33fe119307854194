-- How far a webhook's delivery has come, in one step: what was delivered, what waits aside, what was given up.
-- Only the leading orchestrator may say so: a former leader that still runs somewhere changes nothing.
-- ARGV {now, id, owner, cursor, restart?, lanes[{session, add[[number, event]], done[number], state?}],
--       dead[{number, letter}], fields{}, delivered, failed, deadToTell, disable?, tell?, mostDead, mostWaiting}
-- state: JSON of a parked session; a session with nothing waiting is no longer parked.
-- RETURNS {sizes{session → events that wait}}   REFUSES LEASE_LOST, WEBHOOK_NOT_FOUND
local hook = K.webhook(A.id)
if redis.call('GET', K.leader()) ~= A.owner then return refuse('LEASE_LOST') end
if redis.call('EXISTS', hook) == 0 then return refuse('WEBHOOK_NOT_FOUND') end

local function bury(number, letter)
  if redis.call('HSET', K.webhook_dead(A.id), number, letter) == 1 then redis.call('HINCRBY', hook, 'dead', 1) end
  redis.call('ZADD', K.webhook_dead_order(A.id), number, number)
  while redis.call('ZCARD', K.webhook_dead_order(A.id)) > A.mostDead do
    local oldest = redis.call('ZPOPMIN', K.webhook_dead_order(A.id))[1]
    redis.call('HDEL', K.webhook_dead(A.id), oldest)
    redis.call('HINCRBY', hook, 'deadDropped', 1)
  end
end

local sizes, waiting = {}, tonumber(redis.call('HGET', hook, 'waiting')) or 0
for _, lane in ipairs(A.lanes) do
  local key = K.webhook_waiting(A.id .. ':' .. lane.session)
  local before = redis.call('ZCARD', key)
  for _, number in ipairs(lane.done) do redis.call('ZREMRANGEBYSCORE', key, number, number) end
  for _, pair in ipairs(lane.add) do redis.call('ZADD', key, pair[1], pair[2]) end
  local size = redis.call('ZCARD', key)
  waiting = waiting + size - before
  -- one session must not fill the store: its oldest are given up, where they can be driven again
  while waiting > A.mostWaiting and size > 0 do
    local oldest = redis.call('ZPOPMIN', key)
    local letter = {session = lane.session, event = oldest[1], deadAt = A.now, reason = 'TOO_MANY_WAITING', tries = 0}
    bury(oldest[2], cjson.encode(letter))
    waiting, size = waiting - 1, size - 1
  end
  if size == 0 then
    redis.call('HDEL', K.webhook_parked(A.id), lane.session)
  elseif given(lane.state) then
    redis.call('HSET', K.webhook_parked(A.id), lane.session, lane.state)
  end
  sizes[lane.session] = size
end
redis.call('HSET', hook, 'waiting', waiting)
for _, one in ipairs(A.dead) do bury(one.number, one.letter) end

if A.restart or tonumber(A.cursor) > (tonumber(redis.call('HGET', hook, 'cursor')) or 0) then
  redis.call('HSET', hook, 'cursor', A.cursor)
end
for name, value in pairs(A.fields) do redis.call('HSET', hook, name, value) end
if A.delivered > 0 then redis.call('HINCRBY', hook, 'delivered', A.delivered) end
if A.failed > 0 then redis.call('HINCRBY', hook, 'failed', A.failed) end
-- of all webhooks, those deleted since included: metrics must not go back
if A.delivered > 0 then redis.call('HINCRBY', K.stats_total(), 'webhooksDelivered', A.delivered) end
if A.failed > 0 then redis.call('HINCRBY', K.stats_total(), 'webhooksFailed', A.failed) end
if #A.dead > 0 then redis.call('HINCRBY', K.stats_total(), 'webhooksDead', #A.dead) end
local told = redis.call('HGET', hook, 'toldFailing') == '1'
if A.tell == 'failing' and not told then
  redis.call('HSET', hook, 'toldFailing', '1')
  note('webhook.failing', '', {webhookId = A.id, error = A.fields.lastError or ''})
elseif A.tell == 'recovered' and told then
  redis.call('HDEL', hook, 'toldFailing')
  note('webhook.recovered', '', {webhookId = A.id})
end
-- of these events themselves nothing is noted: they would follow one another for ever
if A.deadToTell > 0 then note('webhook.dead', '', {webhookId = A.id, events = A.deadToTell}) end
if given(A.disable) and redis.call('HGET', hook, 'enabled') == '1' then
  redis.call('HSET', hook, 'enabled', '0', 'disabledReason', A.disable)
  redis.call('INCR', K.webhooks_changed())
  redis.call('HINCRBY', hook, 'version', 1)
  note('webhook.disabled', '', {webhookId = A.id, reason = A.disable})
end
return reply({sizes = sizes})
