-- uses: shared_messages
-- Cancels a message that no worker has yet. Repeating it is harmless.
-- ARGV {now, today, keepMs, id, reason}   RETURNS {state} | MESSAGE_NOT_FOUND | MESSAGE_UNDER_WAY
local state = message_get(A.id, 'state')
if state == '' then return refuse('MESSAGE_NOT_FOUND') end
if state == 'cancelled' then return reply({state = state}) end
if state == 'claimed' or ENDED[state] then return refuse('MESSAGE_UNDER_WAY', {state = state}) end
finish(A.id, 'cancelled', A.reason)
return reply({state = 'cancelled'})
