-- Sessions whose worker is not what is wanted, as far as the store knows; and how many workers are just starting. Changes nothing.
-- ARGV {now, first, last, startingMs}: a range of sessions:all   RETURNS {ids[], starting}
local waiting = {}
for _, id in ipairs(redis.call('SMEMBERS', K.sessions_waiting())) do waiting[id] = true end
local unsettled, starting = {}, 0
for _, id in ipairs(redis.call('ZRANGE', K.sessions_all(), A.first, A.last)) do
  local S = redis.call('HMGET', K.session(id), 'wanted', 'runOrder', 'ranOrder', 'proxy', 'status', 'startedAt')
  local ran, order = tonumber(S[3]) or 0, tonumber(S[2]) or 1
  local wants_worker = S[1] == 'running' and (S[4] or '') ~= '' and not waiting[id]
  if S[1] == 'deleted' or (wants_worker and ran ~= order) or (not wants_worker and ran ~= 0) then
    unsettled[#unsettled + 1] = id
  elseif wants_worker and (S[5] == 'pending' or S[5] == 'reconnecting') and A.now - (tonumber(S[6]) or 0) < A.startingMs then
    starting = starting + 1
  end
end
if #unsettled == 0 then return string.format('{"ids":[],"starting":%d}', starting) end
return reply({ids = unsettled, starting = starting})
