-- Cuts the journal: by number and age, but not what a webhook still has to deliver, unless even that has grown too long.
-- ARGV {now, length, backlog, before}   before: entries noted earlier than this are old
-- RETURNS {trimmed, oldest, last}
local journal = K.events_journal()
local function number_of(entry) return tonumber(string.match(entry[1], '^%d+')) end
local function first_from(id) return redis.call('XRANGE', journal, id, '+', 'COUNT', 1)[1] end
local function noted_at(entry)
  for i = 1, #entry[2], 2 do
    if entry[2][i] == 'at' then return tonumber(entry[2][i + 1]) end
  end
  return 0
end

local last = tonumber(redis.call('GET', K.events_number())) or 0
local first = first_from('-')
if not first then return reply({trimmed = 0, oldest = last + 1, last = last}) end

-- the first number that is young enough: numbers grow with time, so halve the way again and again
local low, high = number_of(first), last + 1
while low < high do
  local middle = math.floor((low + high) / 2)
  local entry = first_from(string.format('%d-0', middle))
  if entry and noted_at(entry) < A.before then low = number_of(entry) + 1 else high = middle end
end
local keep = math.max(low, last - A.length + 1)
for _, id in ipairs(redis.call('ZRANGE', K.webhooks_all(), 0, -1)) do
  local hook = redis.call('HMGET', K.webhook(id), 'enabled', 'cursor')
  if hook[1] == '1' then keep = math.min(keep, (tonumber(hook[2]) or 0) + 1) end
end
keep = math.max(keep, last - A.backlog + 1)
-- whole nodes only (~): exact trimming would rewrite one; what is left over goes with the next
local trimmed = redis.call('XTRIM', journal, 'MINID', '~', string.format('%d-0', math.max(keep, 0)), 'LIMIT', 0)
local oldest = first_from('-')
return reply({trimmed = trimmed, oldest = oldest and number_of(oldest) or last + 1, last = last})
