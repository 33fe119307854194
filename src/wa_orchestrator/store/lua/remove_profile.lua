-- Takes a profile out of stock.   ARGV {phone}   RETURNS {removed}
redis.call('ZREM', K.profiles_all(), A.phone)
return reply({removed = redis.call('HDEL', K.profiles(), A.phone) == 1})
