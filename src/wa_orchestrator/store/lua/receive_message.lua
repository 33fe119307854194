-- uses: shared_inbox
-- What came in, written into its conversation, and the record of its file. Repeats change nothing.
-- ARGV {now, inboxMs, session, chat, lid?, name?, from, at, wa, entry?, edit?{wa, entry}, deletion?{wa, entry}, reaction?{members[], emoji},
--       media?{id, keepMs, set{}}}   RETURNS {outcome = kept | known | off | unknown}
if not session_exists(A.session) then return reply({outcome = 'unknown'}) end
if given(A.media) then
  local record = K.inbound_media(A.session .. ':' .. A.media.id)
  if redis.call('EXISTS', record) == 0 then
    for name, value in pairs(A.media.set) do redis.call('HSET', record, name, value) end
  end
  redis.call('PEXPIRE', record, A.media.keepMs)
  redis.call('ZADD', K.inbound_media_of(A.session), A.now, A.media.id)
  redis.call('ZREMRANGEBYSCORE', K.inbound_media_of(A.session), '-inf', A.now - A.media.keepMs)
  redis.call('PEXPIRE', K.inbound_media_of(A.session), A.media.keepMs)
end
if not keeps_inbox() then return reply({outcome = 'off'}) end

local chat = chat_of(A.session, A.chat)
local name = chat_name(A.session, chat)
if given(A.lid) and A.lid ~= chat then
  if redis.call('ZSCORE', K.inbox(A.session), A.lid) then take_over(A.session, A.lid, chat) end
end

-- Only who wrote a message may change it.
local function own(member)
  local said = redis.call('HGET', K.inbox_said(name), member)
  return said and cjson.decode(said).from == A.from
end
if given(A.reaction) then
  for _, member in ipairs(A.reaction.members) do
    if redis.call('ZSCORE', K.inbox_order(name), member) then mark(name, member, A.from, A.reaction.emoji) end
  end
  return reply({outcome = 'kept'})
end
if given(A.edit) then
  if own(A.edit.wa) then redis.call('HSET', K.inbox_said(name), A.edit.wa .. '#edit', A.edit.entry) end
  return reply({outcome = 'kept'})
end
if given(A.deletion) then
  if own(A.deletion.wa) then
    redis.call('HSET', K.inbox_said(name), A.deletion.wa, A.deletion.entry)
    redis.call('HDEL', K.inbox_said(name), A.deletion.wa .. '#edit')
  end
  return reply({outcome = 'kept'})
end

if redis.call('ZSCORE', K.inbox_order(name), A.wa) then return reply({outcome = 'known'}) end
-- WhatsApp tells whole seconds: within one, what comes later stands later
local at, newest = A.at, redis.call('ZRANGE', K.inbox_order(name), -1, -1, 'WITHSCORES')
local last = tonumber(newest[2]) or 0
if last >= at and last < at + 1000 then at = last + 0.25 end
redis.call('ZADD', K.inbox_order(name), at, A.wa)
redis.call('HSET', K.inbox_said(name), A.wa, A.entry)
redis.call('HINCRBY', K.inbox_chat(name), 'unread', 1)
if given(A.name) then redis.call('HSET', K.inbox_chat(name), 'name', A.name) end
if given(A.lid) and A.lid ~= chat then
  redis.call('HSET', K.inbox_chat(name), 'lid', A.lid)
  redis.call('SET', K.inbox_lid(chat_name(A.session, A.lid)), chat)
end
touch_chat(A.session, chat, A.at)
return reply({outcome = 'kept'})
