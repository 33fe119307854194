-- uses: shared_webhooks
-- Removes a webhook with everything that waits for its receiver.
-- ARGV {now, id}   RETURNS {deleted}
if redis.call('EXISTS', K.webhook(A.id)) == 0 then return reply({deleted = false}) end
drop_webhook(A.id)
return reply({deleted = true})
