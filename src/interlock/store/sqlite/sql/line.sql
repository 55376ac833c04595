-- The first of the line of a lane, in its order.
SELECT * FROM items WHERE status = 'deferred' AND lane = :lane ORDER BY front DESC, position, ticket, id LIMIT :limit
