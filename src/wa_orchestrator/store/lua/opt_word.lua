-- uses: shared_messages shared_suppression
-- A recipient wrote an opt-out or opt-in word: the list, what waits for it and the answer to it, in one step.
-- Repeats and words older than the last one change nothing. An opt-in lifts only what a word has done.
-- ARGV {now, today, keepMs, session, phone, lid?, kind = out|in, word, wa, at, cursor, answer?{id, wa, to, content}}
-- RETURNS {outcome = out | in | repeat | none, cancelled, cursor, answered}
local ANSWER_EVERY_MS = 86400000   -- two machines must not answer each other for ever
local before = redis.call('HMGET', K.opt_word(A.phone), 'wa', 'at', 'answeredAt')
if before[1] == A.wa or (tonumber(before[2]) or 0) > A.at then
  local cancelled, cursor = 0, '0'
  -- called again to end the rest
  if before[1] == A.wa and A.cursor ~= '0' then cancelled, cursor = cancel_waiting(A.phone, A.cursor) end
  return reply({outcome = 'repeat', cancelled = cancelled, cursor = cursor, answered = false})
end
redis.call('HSET', K.opt_word(A.phone), 'wa', A.wa, 'at', A.at, 'kind', A.kind)
redis.call('EXPIRE', K.opt_word(A.phone), 34560000)

local entry = entry_of(A.phone)
if not entry and given(A.lid) then entry = entry_of(A.lid) end
if A.kind == 'in' then
  if not entry or entry.source ~= 'word' then return reply({outcome = 'none', cancelled = 0, cursor = '0', answered = false}) end
  take_from_list(entry)
  note('recipient.opted_in', A.session, {phone = A.phone, word = A.word})
  return reply({outcome = 'in', cancelled = 0, cursor = '0', answered = false})
end

local fresh = entry == nil
if fresh or entry.phone ~= A.phone then
  -- the number of a LID that is on the list has become known: the entry moves to it
  local kept = entry or {reason = 'opted_out', source = 'word', by = A.session, note = A.word, at = A.at}
  if entry then take_from_list(entry) end
  kept.phone, kept.lid = A.phone, given(A.lid) and A.lid or nil
  put_on_list(kept)
elseif given(A.lid) and not given(entry.lid) then
  entry.lid = A.lid
  put_on_list(entry)
end
local cancelled, cursor = cancel_waiting(A.phone, '0')
if given(A.lid) and A.lid ~= A.phone then cancelled = cancelled + cancel_waiting(A.lid, '0') end
if fresh then note('recipient.opted_out', A.session, {phone = A.phone, word = A.word, cancelled = cancelled}) end

-- The answer takes its place in the lane like any message; it alone may still go to this number.
local lane = session_get(A.session, 'phone')
local answered = fresh and given(A.answer) and lane ~= '' and A.now - (tonumber(before[3]) or 0) >= ANSWER_EVERY_MS
if answered then
  redis.call('HSET', K.opt_word(A.phone), 'answeredAt', A.now)
  local number = redis.call('INCR', K.messages_number())
  redis.call('HSET', K.message(A.answer.id), 'id', A.answer.id, 'wa', A.answer.wa, 'to', A.answer.to, 'recipient', A.phone,
    'content', A.answer.content, 'session', A.session, 'lane', lane, 'priority', 1, 'number', number, 'state', 'accepted',
    'acceptedAt', A.now, 'by', 'server', 'exempt', 'opt_out_answer')
  redis.call('ZADD', K.messages_all(), A.now, A.answer.id)
  redis.call('SADD', K.recipient_waiting(A.phone), A.answer.id)
  into_queue(A.answer.id, lane, A.phone, 1, number)
  count('accepted')
end
return reply({outcome = fresh and 'out' or 'none', cancelled = cancelled, cursor = cursor, answered = answered})
