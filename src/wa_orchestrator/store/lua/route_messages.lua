-- uses: shared_messages
-- Gives messages of gateway:jobs a sender, or another time to look again. Each move is its own decision; repeats are harmless.
-- ARGV {now, today, keepMs, moves: [{id, lane?, session?, again?, fail?, waitingFor?}]}   RETURNS {routed}
-- session: it was chosen for this message; later ones to the same recipient follow it, so that they keep their order.
local routed = 0
for _, move in ipairs(A.moves) do
  if redis.call('ZSCORE', K.gateway_jobs(), move.id) then
    if given(move.lane) then
      redis.call('ZREM', K.gateway_jobs(), move.id)
      redis.call('HDEL', K.message(move.id), 'waitingFor')
      local m = redis.call('HMGET', K.message(move.id), 'recipient', 'priority', 'number')
      into_queue(move.id, move.lane, m[1], tonumber(m[2]), tonumber(m[3]))
      if given(move.session) then redis.call('SET', K.routed(m[1]), move.session, 'EX', 86400) end
      routed = routed + 1
    elseif given(move.fail) then
      finish(move.id, 'failed', move.fail)
    else
      redis.call('HSET', K.message(move.id), 'waitingFor', move.waitingFor)
      redis.call('ZADD', K.gateway_jobs(), job_score(move.again, tonumber(message_get(move.id, 'number')) or 0), move.id)
    end
  end
end
return reply({routed = routed})
