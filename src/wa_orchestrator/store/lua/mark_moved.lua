-- uses: shared_messages
-- A session leaves for another server: it never starts here again, and its slot is free. Its phone's binding and trust stay.
-- ARGV {now, id, cap}   RETURNS {moved}
if not session_exists(A.id) then return refuse('SESSION_NOT_FOUND') end
if session_get(A.id, 'movedAt') ~= '' then return reply({moved = false}) end
-- what its worker had not claimed waits for another session of the phone, as when it is deleted
for _, id in ipairs(redis.call('ZRANGE', K.session_outbox(A.id), 0, -1)) do back_into_queue(id) end
give_slot(A.id)
redis.call('HSET', K.session(A.id), 'wanted', 'stopped', 'movedAt', A.now)
redis.call('DEL', K.session_qr(A.id), K.session_temp(A.id))
redis.call('ZREM', K.sessions_unscanned(), A.id)
redis.call('SREM', K.sessions_active(), A.id)
redis.call('SREM', K.sessions_waiting(), A.id)
local phone = session_get(A.id, 'phone')
if phone ~= '' then
  redis.call('SREM', K.phone_session(phone), A.id)
  if redis.call('EXISTS', K.lane(phone)) == 1 then plan_anew(phone) end
end
move_to(A.id, 'stopped', 'MOVED')
note('session.exported', A.id, {phone = phone})
return reply({moved = true})
