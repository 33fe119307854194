-- Takes or keeps the lease of the one orchestrator that runs the loops; everybody who asks is seen to be alive.
-- ARGV {now, owner, ttlMs, want}   want=false gives it back.
-- RETURNS {held, owner, others}: others = how many further orchestrators were seen within the lease's time
-- Something is freed first: a store without memory lets a script that began so write on, and the leader stays.
redis.call('ZREMRANGEBYSCORE', K.orchestrators(), '-inf', A.now - 10 * A.ttlMs)
-- seen by a clock that was ahead of ours and was set back
redis.call('ZREMRANGEBYSCORE', K.orchestrators(), A.now + 10 * A.ttlMs, '+inf')
if A.want then
  redis.call('ZADD', K.orchestrators(), A.now, A.owner)
else
  redis.call('ZREM', K.orchestrators(), A.owner)
end
local holder = redis.call('GET', K.leader())
-- the store's own clock was set back: the lease of a dead leader would last for as long as it was ahead
if holder and redis.call('PTTL', K.leader()) > A.ttlMs then redis.call('PEXPIRE', K.leader(), A.ttlMs) end
if not A.want then
  if holder == A.owner then redis.call('DEL', K.leader()) end
  holder = false
elseif not holder or holder == A.owner then
  redis.call('SET', K.leader(), A.owner, 'PX', A.ttlMs)
  if not holder then note('orchestrator.leads', '', {orchestrator = A.owner}) end
  holder = A.owner
end
local others = redis.call('ZCOUNT', K.orchestrators(), A.now - A.ttlMs, '+inf')
if redis.call('ZSCORE', K.orchestrators(), A.owner) then others = others - 1 end
return reply({held = holder == A.owner, owner = holder or '', others = others})
