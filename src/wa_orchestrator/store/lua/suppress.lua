-- uses: shared_messages shared_suppression
-- Puts a number on the suppression list and ends what waits for it, in one step. One that is there keeps its entry.
-- ARGV {now, today, keepMs, phone, lid?, reason, source, by, note, at, cursor}
-- RETURNS {added, cancelled, cursor}: not '0' when there was too much to end at once; call again with it
local entry = entry_of(A.phone)
local added = entry == nil
if added then
  put_on_list({phone = A.phone, lid = given(A.lid) and A.lid or nil, reason = A.reason, source = A.source, by = A.by, note = A.note,
    at = A.at})
  note('recipient.suppressed', '', {phone = A.phone, reason = A.reason, source = A.source})
elseif given(A.lid) and not given(entry.lid) then
  entry.lid = A.lid
  put_on_list(entry)
end
local cancelled, cursor = cancel_waiting(A.phone, A.cursor)
if given(A.lid) and A.cursor == '0' then cancelled = cancelled + cancel_waiting(A.lid, '0') end
return reply({added = added, cancelled = cancelled, cursor = cursor})
