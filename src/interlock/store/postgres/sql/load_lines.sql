-- The number of waiting items on each lane, counted up to a limit, and the explicit positions among the first of them.
SELECT l.lane, count(*), array_agg(i.position) FILTER (WHERE i.position < 2147483647)
FROM unnest((SELECT %(lanes)s::text[])) AS l(lane) CROSS JOIN LATERAL (
    SELECT position FROM interlock.items WHERE status = 'deferred' AND lane = l.lane
    ORDER BY lane, front DESC, position, ticket, id LIMIT (SELECT %(limit)s::integer)
) AS i
GROUP BY l.lane
