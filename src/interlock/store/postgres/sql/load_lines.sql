-- How many wait on each lane, and the explicit positions among them.
SELECT lane, count(*), array_agg(position) FILTER (WHERE position < 2147483647)
FROM interlock.items WHERE status = 'deferred' AND lane = ANY((SELECT %(lanes)s::text[])::text[]) GROUP BY lane
