-- The first items of a lane's line, in order.
SELECT * FROM interlock.items WHERE status = 'deferred' AND lane = %(lane)s ORDER BY lane, front DESC, position, ticket, id LIMIT %(limit)s
