-- Shared by the scripts that write the suppression list. Needs shared_messages.
-- One call must not hold the store for long: what it leaves is ended by the next call, or at its release.
local CANCELLED_AT_ONCE = 500

-- The entry of a phone, or of a LID: where its phone is known the LID only points there.
local function entry_of(who)
  local text = redis.call('HGET', K.suppressed(), who)
  if not text then return nil, who end
  local entry = cjson.decode(text)
  if not entry.phone then return nil, who end
  if entry.phone == who then return entry, who end
  text = redis.call('HGET', K.suppressed(), entry.phone)
  return text and cjson.decode(text) or nil, entry.phone
end

-- entry {phone, lid?, reason, source, at, by, note}. `phone` is a LID where no number is known.
local function put_on_list(entry)
  redis.call('HSET', K.suppressed(), entry.phone, cjson.encode(entry))
  redis.call('ZADD', K.suppressed_by_time(), A.now, entry.phone)
  if given(entry.lid) and entry.lid ~= entry.phone then
    redis.call('HSET', K.suppressed(), entry.lid, cjson.encode({phone = entry.phone}))
    redis.call('ZREM', K.suppressed_by_time(), entry.lid)
  end
end

local function take_from_list(entry)
  redis.call('HDEL', K.suppressed(), entry.phone)
  redis.call('ZREM', K.suppressed_by_time(), entry.phone)
  if given(entry.lid) then redis.call('HDEL', K.suppressed(), entry.lid) end
end

-- Ends what waits for a recipient, whoever sends it. What a worker has in hand is on its way and cannot be called back.
-- Returns how many were ended, and where to go on ('0': all were looked at).
local function cancel_waiting(recipient, cursor)
  local cancelled = 0
  local found = redis.call('SSCAN', K.recipient_waiting(recipient), cursor, 'COUNT', CANCELLED_AT_ONCE)
  for _, id in ipairs(found[2]) do
    local m = redis.call('HMGET', K.message(id), 'state', 'exempt')
    if not m[1] then
      redis.call('SREM', K.recipient_waiting(recipient), id)
    elseif not m[2] and m[1] ~= 'claimed' and not ENDED[m[1]] then
      finish(id, 'cancelled', 'RECIPIENT_OPTED_OUT')
      cancelled = cancelled + 1
    end
  end
  return cancelled, found[1]
end
