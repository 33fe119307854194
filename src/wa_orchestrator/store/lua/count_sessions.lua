-- Counts a part of the sessions for metrics: states, memory, and the lanes that hold messages. Changes nothing.
-- ARGV {now, first, last: ranks by age, freshMs: a worker that pinged within this reports}
-- RETURNS {sessions, states, reporting, rssSum, rssMax, lanes = [phone, waiting, under way …], blocked[], slowed[]: phones}
local states, lanes, blocked, slowed = {}, {}, {}, {}
local sessions, reporting, rss_sum, rss_max = 0, 0, 0, 0
for _, id in ipairs(redis.call('ZRANGE', K.sessions_all(), A.first, A.last)) do
  local s = redis.call('HMGET', K.session(id), 'status', 'wanted', 'phone', 'rssBytes', 'lastPing')
  if s[1] and s[2] ~= 'deleted' then
    sessions = sessions + 1
    states[s[1]] = (states[s[1]] or 0) + 1
    if A.now - (tonumber(s[5]) or 0) < A.freshMs then
      local rss = tonumber(s[4]) or 0
      reporting, rss_sum, rss_max = reporting + 1, rss_sum + rss, math.max(rss_max, rss)
    end
    local phone = s[3]
    if phone and phone ~= '' then
      local waiting, under_way = redis.call('SCARD', K.queue_size(phone)), redis.call('SCARD', K.lane_inflight(phone))
      if waiting + under_way > 0 then
        lanes[#lanes + 1] = phone
        lanes[#lanes + 1] = waiting
        lanes[#lanes + 1] = under_way
      end
      local lane = redis.call('HMGET', K.lane(phone), 'blockedUntil', 'slow')
      if (tonumber(lane[1]) or 0) > A.now then blocked[#blocked + 1] = phone end
      if (tonumber(lane[2]) or 1) > 1 then slowed[#slowed + 1] = phone end
    end
  end
end
return reply({sessions = sessions, states = states, reporting = reporting, rssSum = rss_sum, rssMax = rss_max,
  lanes = lanes, blocked = blocked, slowed = slowed})
