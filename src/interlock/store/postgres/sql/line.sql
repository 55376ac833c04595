-- The first of the line of a lane, in its order.
SELECT * FROM interlock.items WHERE status = 'deferred' AND lane = %(lane)s ORDER BY lane, front DESC, position, ticket, id LIMIT %(limit)s
