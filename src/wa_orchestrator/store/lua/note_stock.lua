-- What runs low or is enough again is noted once, however many look.
-- ARGV {now, stocks[{name, count, threshold, low}]}   RETURNS {noted}
local noted = 0
for _, stock in ipairs(A.stocks) do
  local data = {stock = stock.name, count = stock.count, threshold = stock.threshold}
  if stock.low and redis.call('SADD', K.inventory_low(), stock.name) == 1 then
    note('inventory.low', '', data)
    noted = noted + 1
  elseif not stock.low and redis.call('SREM', K.inventory_low(), stock.name) == 1 then
    note('inventory.enough', '', data)
    noted = noted + 1
  end
end
return reply({noted = noted})
