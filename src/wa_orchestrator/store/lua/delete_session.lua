-- uses: shared_messages shared_inbox
-- Removes a session and frees its slot. The phone's sticky binding stays unless it is to be forgotten.
-- ARGV {now, id, forget, cap, keepS, onlyUnconfirmed?}   RETURNS {deleted, already}
if not session_exists(A.id) then
  if redis.call('EXISTS', K.session_deleted(A.id)) == 1 then return reply({deleted = false, already = true}) end
  return refuse('SESSION_NOT_FOUND')
end
if A.onlyUnconfirmed and not redis.call('ZSCORE', K.sessions_unconfirmed(), A.id) then
  return reply({deleted = false, already = false})
end
local phone = session_get(A.id, 'phone')
-- what its worker had not claimed goes back: another session of the phone may send it, or it is said that there is none
for _, id in ipairs(redis.call('ZRANGE', K.session_outbox(A.id), 0, -1)) do back_into_queue(id) end
local proxy = give_slot(A.id)
if phone ~= '' then
  redis.call('SREM', K.phone_session(phone), A.id)
  -- another session of this phone still lives by the binding
  if A.forget and #live_sessions_of(phone, A.id) == 0 then unbind_phone(phone) end
end
-- what people wrote goes with the session
forget_inbox(A.id)
local metadata = session_get(A.id, 'metadata')
if metadata ~= '' and metadata ~= '{}' then
  redis.call('SET', K.session_metadata_kept(A.id), metadata, 'EX', math.max(A.keepS, 3600))
end
redis.call('DEL', K.session(A.id), K.session_temp(A.id), K.session_qr(A.id), K.session_commands(A.id), K.limits(A.id))
redis.call('ZREM', K.sessions_all(), A.id)
redis.call('ZREM', K.sessions_unconfirmed(), A.id)
redis.call('ZREM', K.sessions_unscanned(), A.id)
redis.call('SREM', K.sessions_active(), A.id)
redis.call('SREM', K.sessions_waiting(), A.id)
redis.call('SET', K.session_deleted(A.id), A.now, 'EX', math.max(A.keepS, 3600))
-- its own limits no longer count, and what only it could send is ended
if phone ~= '' and redis.call('EXISTS', K.lane(phone)) == 1 then plan_anew(phone) end
note('session.deleted', A.id, {proxy = proxy})
redis.call('EXPIRE', K.session_events(A.id), math.max(A.keepS, 3600))
return reply({deleted = true, already = false})
