-- The first items of a lane's line, in order.
SELECT * FROM items WHERE status = 'deferred' AND lane = :lane ORDER BY lane, front DESC, position, ticket, id LIMIT :limit
