-- uses: shared_messages shared_suppression
-- Takes a number from the suppression list.
-- ARGV {now, phone, by}   RETURNS {phone} | NOT_SUPPRESSED
local entry = entry_of(A.phone)
if not entry then return refuse('NOT_SUPPRESSED') end
take_from_list(entry)
note('recipient.allowed', '', {phone = entry.phone, by = A.by})
return reply({phone = entry.phone})
