-- What a list of sessions shows, read in one go: record, lane, age and queue of each. Changes nothing.
-- ARGV {now, ids, laneFields}
-- RETURNS {rows = [[record as a flat list, lane values in the order of laneFields, first connected, waiting, under way]]}
local rows = {}
for _, id in ipairs(A.ids) do
  local record = redis.call('HGETALL', K.session(id))
  if #record > 0 then
    local phone = session_get(id, 'phone')
    local lane, first, waiting, under_way = {}, false, 0, 0
    if phone ~= '' then
      lane = redis.call('HMGET', K.lane(phone), unpack(A.laneFields))
      first = redis.call('HGET', K.phone(phone), 'firstConnectedAt')
      waiting = redis.call('SCARD', K.queue_size(phone))
      under_way = redis.call('SCARD', K.lane_inflight(phone))
    end
    rows[#rows + 1] = {record, lane, first, waiting, under_way}
  end
end
if #rows == 0 then return '{"rows":[]}' end
return reply({rows = rows})
