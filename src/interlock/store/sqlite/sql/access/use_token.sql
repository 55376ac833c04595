-- Record the last use of a token, once a minute at most.
UPDATE tokens SET used_us = :now_us WHERE id = :id AND coalesce(used_us, 0) <= :now_us - 60000000
