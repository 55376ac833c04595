-- How many items of the lane go before this one.
SELECT count(*) FROM interlock.items WHERE status = 'deferred' AND lane = %(lane)s
    AND (NOT front, position, ticket, id) < (NOT %(front)s::boolean, %(position)s, %(ticket)s, %(id)s)
