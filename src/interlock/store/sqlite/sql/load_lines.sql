-- The number of waiting items on a lane, counted up to a limit, and the explicit positions among the first of them.
SELECT :lane, count(*), json_group_array(position) FILTER (WHERE position < 2147483647) FROM (
    SELECT position FROM items WHERE status = 'deferred' AND lane = :lane
    ORDER BY front DESC, position, ticket, id LIMIT :limit)
