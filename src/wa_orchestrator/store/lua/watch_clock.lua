-- Notes what time it is, and tells when the clock went back since the last note.
-- ARGV {now, slackMs}   RETURNS {backMs}: 0, or how far it went back; then nothing is written: set_clock_back does that
local seen = tonumber(redis.call('GET', K.clock_seen())) or 0
if seen - A.now > A.slackMs then return reply({backMs = seen - A.now}) end
-- now and then is often enough, and an idle system writes next to nothing
if A.now - seen >= A.slackMs / 3 then
  redis.call('PERSIST', K.clock_seen())  -- frees nothing, but after it a store without memory lets the script write
  redis.call('SET', K.clock_seen(), string.format('%d', A.now))
end
return reply({backMs = 0})
