-- A worker's event: numbered, noted, and applied to the state if the table of moves allows it.
-- ARGV {now, id, seq?, stream?, eventAt, type, data, allowedFrom[], allowedFromLinked[], status?, reason?, set{}, qr?, qrMs?, unlink?, park?,
--       commandId?, result?, quiet?, cap}
-- quiet: not noted (PING). unlink: WhatsApp removed the device. park: the worker ended its work; stop wanting it.
-- RETURNS {outcome = applied | noted | repeat | late, status, was}
if not session_exists(A.id) then
  if redis.call('EXISTS', K.session_deleted(A.id)) == 1 then return refuse('SESSION_DELETED') end
  return refuse('SESSION_NOT_FOUND')
end
if is_repeat(A.id) then return reply({outcome = 'repeat'}) end
remember_seq(A.id)
if not A.quiet then note(A.type, A.id, A.data) end

local was = session_get(A.id, 'status')
if given(A.commandId) then
  -- a worker answers the commands it was given and no other: its word must not pass for another worker's
  if redis.call('HDEL', K.session_commands(A.id), A.commandId) == 1 then
    redis.call('SET', K.command_result(A.commandId), A.result, 'EX', 600)
  end
  return reply({outcome = 'applied', status = was, was = was})
end
-- from a run before the last start order, or for a session that is not meant to run
local started = tonumber(session_get(A.id, 'startedAt')) or 0
if A.eventAt < started or session_get(A.id, 'wanted') ~= 'running' then
  return reply({outcome = 'late', status = was, was = was})
end
for name, value in pairs(A.set) do redis.call('HSET', K.session(A.id), name, value) end
if not given(A.status) then return reply({outcome = 'noted', status = was, was = was}) end

local allowed = false
for _, from in ipairs(session_get(A.id, 'jid') ~= '' and A.allowedFromLinked or A.allowedFrom) do allowed = allowed or from == was end
if not allowed then return reply({outcome = 'late', status = was, was = was}) end
-- waiting for a proxy is said until one is found: the worker's own retries do not hide it
if redis.call('SISMEMBER', K.sessions_waiting(), A.id) == 1 and not (A.unlink or A.park) then
  return reply({outcome = 'noted', status = was, was = was})
end
if given(A.qr) then redis.call('SET', K.session_qr(A.id), A.qr, 'PX', A.qrMs) end
if A.status ~= 'qr_ready' then redis.call('DEL', K.session_qr(A.id)) end
if A.unlink then redis.call('HSET', K.session(A.id), 'jid', '', 'lid', '') end
if A.park then
  redis.call('HSET', K.session(A.id), 'wanted', 'stopped')
  redis.call('SREM', K.sessions_active(), A.id)
  redis.call('SREM', K.sessions_waiting(), A.id)
end
move_to(A.id, A.status, given(A.reason) and A.reason or '')
return reply({outcome = 'applied', status = A.status, was = was})
