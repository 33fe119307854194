-- Rates as one number per name, shared by all gateways (GCRA): when the next call fits.
-- First ask all rates, then take a turn of each: a refusal writes nothing.
local function wait_for_turn(name, step, burst)
  local fits = math.max(tonumber(redis.call('GET', K.rate(name))) or 0, A.now)
  return math.max(0, math.ceil(fits - A.now - step * (burst - 1))), fits
end

local function take_turn(name, step, fits)
  redis.call('SET', K.rate(name), string.format('%.3f', fits + step), 'PX', math.ceil(fits + step - A.now) + 1000)
end
