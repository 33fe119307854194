-- Shared by scripts that take webhooks away.

-- With everything that waits for its receiver.
local function drop_webhook(id)
  for _, session in ipairs(redis.call('HKEYS', K.webhook_parked(id))) do
    redis.call('DEL', K.webhook_waiting(id .. ':' .. session))
  end
  redis.call('DEL', K.webhook(id), K.webhook_parked(id), K.webhook_dead(id), K.webhook_dead_order(id))
  redis.call('ZREM', K.webhooks_all(), id)
  redis.call('INCR', K.webhooks_changed())
  note('webhook.deleted', '', {webhookId = id})
end
