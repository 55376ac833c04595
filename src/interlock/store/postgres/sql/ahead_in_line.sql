-- The number of items ahead of this one on the lane, counted up to a limit.
SELECT count(*) FROM (
    SELECT FROM interlock.items WHERE status = 'deferred' AND lane = %(lane)s
        AND (NOT front, position, ticket, id) < (NOT %(front)s::boolean, %(position)s, %(ticket)s, %(id)s)
    ORDER BY lane, front DESC, position, ticket, id LIMIT (SELECT %(limit)s::integer)
) AS ahead
