-- Shared by the scripts that keep conversations. A conversation is one chat of one session: its newest messages by time, what
-- was received as JSON, what we sent by its message id only (the message itself has text and state).
-- A.inboxMs: how long conversations are kept; nothing or 0: not at all.
local INBOX_CHATS = 500       -- per session; the one that was quiet for longest goes first
local INBOX_MESSAGES = 100    -- per conversation
local INBOX_MARKS = 50        -- people whose reaction to one message is kept

local function keeps_inbox() return (tonumber(A.inboxMs) or 0) > 0 end
local function chat_name(session, chat) return session .. ':' .. chat end

local function forget_message(name, member)
  redis.call('ZREM', K.inbox_order(name), member)
  redis.call('HDEL', K.inbox_said(name), member, member .. '#edit', member .. '#marks')
end

local function forget_chat(session, chat)
  local name = chat_name(session, chat)
  local lid = redis.call('HGET', K.inbox_chat(name), 'lid')
  if lid then redis.call('DEL', K.inbox_lid(chat_name(session, lid))) end
  redis.call('DEL', K.inbox_chat(name), K.inbox_order(name), K.inbox_said(name))
  redis.call('ZREM', K.inbox(session), chat)
end

local function forget_inbox(session)
  for _, chat in ipairs(redis.call('ZRANGE', K.inbox(session), 0, -1)) do forget_chat(session, chat) end
  for _, id in ipairs(redis.call('ZRANGE', K.inbound_media_of(session), 0, -1)) do
    redis.call('DEL', K.inbound_media(session .. ':' .. id))
  end
  redis.call('DEL', K.inbound_media_of(session))
end

-- Under which name a chat is kept: a LID whose number became known is the number's.
local function chat_of(session, chat)
  return redis.call('GET', K.inbox_lid(chat_name(session, chat))) or chat
end

-- What was kept under a LID before its number was known.
local function take_over(session, lid, chat)
  local from, to = chat_name(session, lid), chat_name(session, chat)
  local members = redis.call('ZRANGE', K.inbox_order(from), 0, -1, 'WITHSCORES')
  for i = 1, #members, 2 do redis.call('ZADD', K.inbox_order(to), members[i + 1], members[i]) end
  local said = redis.call('HGETALL', K.inbox_said(from))
  for i = 1, #said, 2 do redis.call('HSET', K.inbox_said(to), said[i], said[i + 1]) end
  redis.call('HINCRBY', K.inbox_chat(to), 'unread', tonumber(redis.call('HGET', K.inbox_chat(from), 'unread')) or 0)
  forget_chat(session, lid)
end

-- Something was said in the chat: it comes first, lives on, and stays within its bounds.
local function touch_chat(session, chat, at)
  local name = chat_name(session, chat)
  redis.call('ZADD', K.inbox(session), 'GT', at, chat)
  local most = redis.call('ZCARD', K.inbox_order(name)) - INBOX_MESSAGES
  for rank, member in ipairs(redis.call('ZRANGE', K.inbox_order(name), 0, math.max(most, 20))) do
    if rank > most and tonumber(redis.call('ZSCORE', K.inbox_order(name), member)) >= A.now - A.inboxMs then break end
    forget_message(name, member)
  end
  if redis.call('ZCARD', K.inbox_order(name)) == 0 then return forget_chat(session, chat) end
  for _, key in ipairs({K.inbox(session), K.inbox_chat(name), K.inbox_order(name), K.inbox_said(name)}) do
    redis.call('PEXPIRE', key, A.inboxMs)
  end
  local lid = redis.call('HGET', K.inbox_chat(name), 'lid')
  if lid then redis.call('PEXPIRE', K.inbox_lid(chat_name(session, lid)), A.inboxMs) end
  for _, quiet in ipairs(redis.call('ZRANGE', K.inbox(session), '-inf', A.now - A.inboxMs, 'BYSCORE', 'LIMIT', 0, 50)) do
    forget_chat(session, quiet)
  end
  for _ = 1, redis.call('ZCARD', K.inbox(session)) - INBOX_CHATS do
    forget_chat(session, redis.call('ZRANGE', K.inbox(session), 0, 0)[1])
  end
end

-- A reaction is a mark on its message, one per person; an empty one takes it back.
local function mark(name, member, from, emoji)
  local field = member .. '#marks'
  local marks, people = cjson.decode(redis.call('HGET', K.inbox_said(name), field) or '{}'), 0
  for _ in pairs(marks) do people = people + 1 end
  if emoji == '' then marks[from] = nil elseif marks[from] or people < INBOX_MARKS then marks[from] = emoji end
  if next(marks) == nil then return redis.call('HDEL', K.inbox_said(name), field) end
  redis.call('HSET', K.inbox_said(name), field, cjson.encode(marks))
end

-- A message of ours went out: it belongs to the conversation, and whoever answers has read.
local function said_by_us(id, session, recipient, at)
  if not keeps_inbox() then return end
  local chat = chat_of(session, recipient)
  local name = chat_name(session, chat)
  -- only a short one can be a reaction; media in the message itself can have megabytes
  if redis.call('HSTRLEN', K.message(id), 'content') < 1000 then
    local content = cjson.decode(redis.call('HGET', K.message(id), 'content') or '{}')
    if content.kind == 'reaction' then
      local target = content.target or {}
      local member = target.waMessageId or ''
      if target.fromMe then member = 'msg_' .. string.lower(string.sub(member, 5)) end
      if redis.call('ZSCORE', K.inbox_order(name), member) then mark(name, member, 'me', content.emoji or '') end
      return
    end
  end
  redis.call('ZADD', K.inbox_order(name), at, id)
  redis.call('HSET', K.inbox_chat(name), 'unread', 0)
  touch_chat(session, chat, at)
end
