-- uses: shared_messages
-- Looks at outboxes whose time has come. A retried message becomes claimable with time, not with an event: its worker is woken.
-- What lies in the outbox of a session that is not connected goes back to its lane: another session of the phone may send it.
-- ARGV {now, today, keepMs, limit}   RETURNS {woken}
local woken = 0
for _, session in ipairs(redis.call('ZRANGE', K.outbox_retries(), '-inf', A.now, 'BYSCORE', 'LIMIT', 0, A.limit)) do
  redis.call('ZREM', K.outbox_retries(), session)
  local status = session_get(session, 'status')
  local ended = status == '' or status == 'logged_out' or status == 'failed'
  if status ~= 'connected' then
    for _, id in ipairs(redis.call('ZRANGE', K.session_outbox(session), 0, 199)) do
      -- one that it may have sent waits for its word, unless that never comes
      if ended or not may_have_been_sent(id) then back_into_queue(id) end
    end
  end
  local first = redis.call('ZRANGE', K.session_outbox(session), 0, 0, 'WITHSCORES')
  if first[1] then
    local later = redis.call('ZRANGE', K.session_outbox(session), '(' .. A.now, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    look_at_outbox(session, math.min(tonumber(later[2]) or math.huge, A.now + LOOK_AGAIN_MS))
    if tonumber(first[2]) <= A.now then
      wake(session)
      woken = woken + 1
    end
  end
end
return reply({woken = woken})
