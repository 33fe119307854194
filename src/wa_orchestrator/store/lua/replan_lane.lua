-- uses: shared_messages
-- Limits changed: the lane is planned anew before its next message. A plan made from the old limits is told by its version.
-- ARGV {now, lane}   RETURNS {replanned}
plan_anew(A.lane)
return reply({replanned = true})
