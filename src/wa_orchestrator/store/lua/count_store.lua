-- Lengths, totals and the proxy pool for metrics, without looking at single sessions. Changes nothing.
-- ARGV {now, cap, aliveMs: an orchestrator seen within this lives}
-- RETURNS {sessions, jobs, dead, claimed, waitingForProxy, lanesDue, oldestDueMs, journal, leader, orchestrators, totals, failed,
--          proxies: by state, freeSlots, webhooks {total, failing, disabled, waiting, dead, behind}}
local AT_ONCE = 1000             -- Lua passes on only so many arguments
local function pairs_of(key)
  local flat, found = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do found[flat[i]] = tonumber(flat[i + 1]) end
  return found
end

local proxies = {}
local ids = redis.call('SMEMBERS', K.proxies_all())
for first = 1, #ids, AT_ONCE do
  local names = {}
  for i = first, math.min(first + AT_ONCE - 1, #ids) do names[#names + 1] = K.proxy_status(ids[i]) end
  for _, status in ipairs(redis.call('MGET', unpack(names))) do
    if status then proxies[status] = (proxies[status] or 0) + 1 end
  end
end
local free = 0
local available = redis.call('ZRANGE', K.proxies_available(), 0, -1, 'WITHSCORES')
for i = 2, #available, 2 do free = free + math.max(0, A.cap - tonumber(available[i])) end

local journal = tonumber(redis.call('GET', K.events_number())) or 0
local hooks = {total = 0, failing = 0, disabled = 0, waiting = 0, dead = 0, behind = 0}
for _, id in ipairs(redis.call('ZRANGE', K.webhooks_all(), 0, -1)) do
  local w = redis.call('HMGET', K.webhook(id), 'enabled', 'failures', 'waiting', 'cursor')
  hooks.total = hooks.total + 1
  hooks.waiting = hooks.waiting + (tonumber(w[3]) or 0)
  hooks.dead = hooks.dead + redis.call('ZCARD', K.webhook_dead_order(id))
  if w[1] ~= '1' then
    hooks.disabled = hooks.disabled + 1
  else
    if (tonumber(w[2]) or 0) > 0 then hooks.failing = hooks.failing + 1 end
    hooks.behind = math.max(hooks.behind, journal - (tonumber(w[4]) or journal))
  end
end

local oldest = redis.call('ZRANGE', K.lanes_due(), 0, 0, 'WITHSCORES')[2]
return reply({
  sessions = redis.call('ZCARD', K.sessions_all()),
  jobs = redis.call('ZCARD', K.gateway_jobs()),
  dead = redis.call('ZCARD', K.messages_dead()),
  claimed = redis.call('ZCARD', K.claims_expiring()),
  waitingForProxy = redis.call('SCARD', K.sessions_waiting()),
  lanesDue = redis.call('ZCOUNT', K.lanes_due(), '-inf', A.now),
  oldestDueMs = oldest and math.max(0, A.now - tonumber(oldest)) or 0,
  journal = journal,
  leader = redis.call('EXISTS', K.leader()),
  orchestrators = redis.call('ZCOUNT', K.orchestrators(), A.now - A.aliveMs, '+inf'),
  totals = pairs_of(K.stats_total()),
  failed = pairs_of(K.stats_failed()),
  proxies = proxies,
  freeSlots = free,
  webhooks = hooks,
})
