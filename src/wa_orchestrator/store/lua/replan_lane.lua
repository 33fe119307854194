-- uses: shared_messages
-- Limits changed: the lane is planned anew before its next message.
-- ARGV {now, lane}   RETURNS {}
redis.call('HSET', K.lane(A.lane), 'replanAt', 0)
redis.call('ZADD', K.lanes_due(), A.now, A.lane)
return reply({replanned = true})
