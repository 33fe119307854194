-- uses: shared_rate
-- A key's own rate, for calls that are no messages.
-- ARGV {now, name, perMinute, burst}   RETURNS {waitMs}: 0 when the turn was taken
local step = 60000 / A.perMinute
local wait, fits = wait_for_turn(A.name, step, A.burst)
if wait == 0 then take_turn(A.name, step, fits) end
return reply({waitMs = wait})
