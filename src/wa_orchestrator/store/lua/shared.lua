-- Shared by all scripts. Every script takes one ARGV: a JSON object of named arguments (times in ms), and returns JSON.
-- A refusal is {error=CODE, …details}. Scripts write only after every check has passed: nothing half-done.
local A = cjson.decode(ARGV[1])
local LONGEST_JOURNAL = 2000000  -- a safety net; the journal's keeper (trim_journal) cuts it far shorter
local TIMELINE_LENGTH = 500

local function given(value) return value ~= nil and value ~= cjson.null and value ~= '' end
local function reply(value) return cjson.encode(value) end
local function refuse(code, details)
  local answer = details or {}
  answer.error = code
  return cjson.encode(answer)
end

local function session_exists(id) return redis.call('EXISTS', K.session(id)) == 1 end
local function session_get(id, name) return redis.call('HGET', K.session(id), name) or '' end

-- Journal ------------------------------------------------------------------------------------------------------------
local function note(kind, id, data)
  local number = redis.call('INCR', K.events_number())
  local entry = string.format('%d-0', number)
  local body = type(data) == 'string' and data or cjson.encode(data)
  redis.call('XADD', K.events_journal(), 'MAXLEN', '~', LONGEST_JOURNAL, entry,
    'type', kind, 'session', id or '', 'at', A.now, 'data', body)
  if given(id) then
    redis.call('XADD', K.session_events(id), 'MAXLEN', '~', TIMELINE_LENGTH, entry, 'type', kind, 'at', A.now, 'data', body)
  end
  return number
end

-- Slots --------------------------------------------------------------------------------------------------------------
local function proxy_exists(p) return redis.call('SISMEMBER', K.proxies_all(), p) == 1 end
local function proxy_status(p) return redis.call('GET', K.proxy_status(p)) or '' end
local function proxy_load(p) return redis.call('SCARD', K.proxy_sessions(p)) end
local function is_draining(p) return redis.call('HGET', K.proxy(p), 'draining') == '1' end
local function is_healthy(p) return proxy_exists(p) and proxy_status(p) == 'active' and not is_draining(p) end
local function has_room(p) return proxy_load(p) < A.cap end

-- What others read about a proxy's load is written from the set itself, so no repeat can make it drift.
local function refresh_proxy(p)
  local load = proxy_load(p)
  if not proxy_exists(p) then
    redis.call('ZREM', K.proxies_available(), p)
    if load == 0 then redis.call('DEL', K.counter_proxy(p)) end
    return
  end
  redis.call('SET', K.counter_proxy(p), load)
  if is_healthy(p) and load < A.cap then
    redis.call('ZADD', K.proxies_available(), load, p)
  else
    redis.call('ZREM', K.proxies_available(), p)
  end
end

-- A new proxy: active until a check says otherwise, and the check is due at once.
local function enter_proxy(p, fields)
  redis.call('SADD', K.proxies_all(), p)
  redis.call('SET', K.proxy_status(p), 'active')
  for name, value in pairs(fields) do redis.call('HSET', K.proxy(p), name, value) end
  redis.call('ZADD', K.proxies_checks(), 0, p)
  note('proxy.added', '', {proxy = p})
  refresh_proxy(p)
end

local function take_slot(p, id)
  redis.call('SADD', K.proxy_sessions(p), id)
  redis.call('HSET', K.session(id), 'proxy', p)
  refresh_proxy(p)
end

local function give_slot(id)
  local p = session_get(id, 'proxy')
  if p == '' then return '' end
  redis.call('SREM', K.proxy_sessions(p), id)
  redis.call('HSET', K.session(id), 'proxy', '')
  refresh_proxy(p)
  return p
end

-- The least loaded healthy proxy with a free slot, or nil. The set is kept for the cap of its last writer, so look again.
local function choose_proxy(except)
  local first, count = 0, redis.call('ZCARD', K.proxies_available())
  while first < count do
    for _, p in ipairs(redis.call('ZRANGE', K.proxies_available(), first, first + 31)) do
      if p ~= except and is_healthy(p) and has_room(p) then return p end
    end
    first = first + 32
  end
  return nil
end

-- Phones -------------------------------------------------------------------------------------------------------------
local function bind_phone(phone, p)
  local old = redis.call('GET', K.phone_proxy(phone))
  if old == p then return end
  if old then redis.call('SREM', K.proxy_phones(old), phone) end
  redis.call('SET', K.phone_proxy(phone), p)
  redis.call('SADD', K.proxy_phones(p), phone)
end

local function unbind_phone(phone)
  local old = redis.call('GET', K.phone_proxy(phone))
  if old then redis.call('SREM', K.proxy_phones(old), phone) end
  redis.call('DEL', K.phone_proxy(phone), K.phone(phone))
end

-- Sessions of a phone that count as live: everything but those that ended and await the operator.
local function live_sessions_of(phone, except)
  local found = {}
  for _, id in ipairs(redis.call('SMEMBERS', K.phone_session(phone))) do
    local status = session_get(id, 'status')
    if id ~= except and status ~= '' and status ~= 'logged_out' and status ~= 'failed' then found[#found + 1] = id end
  end
  table.sort(found)
  return found
end

-- Where a phone lives: with its linked sessions, else with those that wait for a scan, else where it is bound.
-- The second value tells that a live session is there, so that going elsewhere would split the phone.
local function home_of(phone, except)
  local bound = redis.call('GET', K.phone_proxy(phone)) or nil
  local unscanned
  for _, id in ipairs(live_sessions_of(phone, except)) do
    local p = session_get(id, 'proxy')
    if p ~= '' and is_healthy(p) then
      if session_get(id, 'jid') ~= '' then return p, true end
      unscanned = unscanned or p
    end
  end
  if unscanned then return unscanned, true end
  return bound, false
end

-- A live session of this phone that holds a slot on another proxy, or nil.
local function session_elsewhere(phone, p, except)
  for _, id in ipairs(live_sessions_of(phone, except)) do
    local other = session_get(id, 'proxy')
    if other ~= '' and other ~= p then return id end
  end
  return nil
end

-- State --------------------------------------------------------------------------------------------------------------
-- Moves the session unless it is there already; the caller has checked that the move is allowed.
local function move_to(id, status, reason)
  local old_status, old_reason = session_get(id, 'status'), session_get(id, 'reason')
  if old_status == status and old_reason == (reason or '') then return false end
  redis.call('HSET', K.session(id), 'status', status, 'reason', reason or '', 'statusAt', A.now)
  note('session.status', id, {status = status, was = old_status, reason = reason or ''})
  return true
end

-- Numbers of events: a repeat or an older one is known by (stream, seq).
local function is_repeat(id)
  if not given(A.seq) then return false end
  local stream = given(A.stream) and A.stream or ''
  if session_get(id, 'stream') ~= stream then return false end
  return tonumber(A.seq) <= (tonumber(session_get(id, 'seq')) or 0)
end

local function remember_seq(id)
  if not given(A.seq) then return end
  redis.call('HSET', K.session(id), 'stream', given(A.stream) and A.stream or '', 'seq', A.seq)
end
