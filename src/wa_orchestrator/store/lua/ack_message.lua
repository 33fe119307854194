-- uses: shared_messages shared_inbox
-- WhatsApp has the message. That is a fact whoever tells it and however late, so it is never refused.
-- ARGV {now, today, keepMs, inboxMs, id, session, sentAt}   RETURNS {ok, repeated} | MESSAGE_NOT_FOUND
local m = redis.call('HMGET', K.message(A.id), 'state', 'lane', 'recipient', 'outboxOf')
-- a worker speaks for the messages it was given and for no other
if not m[1] or m[4] ~= A.session then return refuse('MESSAGE_NOT_FOUND') end
if RANK[m[1]] then return reply({ok = true, repeated = true}) end
take_out(A.id, true)
if m[2] ~= '' then lane_succeeded(m[2]) end
redis.call('ZREM', K.messages_dead(), A.id)
redis.call('HSET', K.message(A.id), 'state', 'sent', 'sentAt', A.sentAt, 'reason', '')
redis.call('PEXPIRE', K.message(A.id), A.keepMs)
talked(m[3], A.session)
said_by_us(A.id, A.session, m[3], A.sentAt)
count('sent')
publish(A.id, 'sent')
return reply({ok = true, repeated = false})
