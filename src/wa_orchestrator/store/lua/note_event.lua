-- Tells the journal of something that concerns the whole installation.
-- ARGV {now, event, data}   RETURNS {number}
return reply({number = note(A.event, '', A.data)})
