-- Counts a try before it is carried out, so that parallel tries cannot slip through.
-- ARGV {now, who, most, everybody, mostEverywhere, windowS}   who, everybody = the counters' names
-- RETURNS {waitS}: 0 = go on; else so long until the next try is allowed, and this one was not counted
local function wait_of(key, most)
  if (tonumber(redis.call('GET', key)) or 0) < most then return 0 end
  -- the store's clock may have been ahead when it was counted, and be set back since
  if redis.call('TTL', key) > A.windowS then redis.call('EXPIRE', key, A.windowS) end
  return math.max(1, redis.call('TTL', key))
end
local own, all = K.sign_in_tries(A.who), K.sign_in_tries(A.everybody)
local wait = math.max(wait_of(own, A.most), wait_of(all, A.mostEverywhere))
if wait > 0 then return reply({waitS = wait}) end
for _, key in ipairs({own, all}) do
  if redis.call('INCR', key) == 1 then redis.call('EXPIRE', key, A.windowS) end
end
return reply({waitS = 0})
