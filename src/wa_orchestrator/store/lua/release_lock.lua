-- Gives a lock back, or renews it, only if it is still ours.
-- ARGV {now, id, token, renewMs?}   RETURNS {held}
if redis.call('GET', K.session_lock(A.id)) ~= A.token then return reply({held = false}) end
if given(A.renewMs) then
  redis.call('PEXPIRE', K.session_lock(A.id), A.renewMs)
else
  redis.call('DEL', K.session_lock(A.id))
end
return reply({held = true})
