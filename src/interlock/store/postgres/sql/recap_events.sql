-- Starts and ends of runs and ends of items among the newest events from a number on, the newest first.
SELECT seq, at_us, kind, reason, item, run, agent, span_us, data::json ->> 'item_status', (data::json ->> 'by_item')::bigint
FROM (
    SELECT seq, at_us, kind, reason, item, run, agent, span_us, data FROM interlock.events WHERE seq >= %(seq)s ORDER BY seq DESC LIMIT (SELECT %(limit)s::integer)
) AS newest
WHERE item IS NOT NULL AND kind = ANY(%(kinds)s::text[])
ORDER BY seq DESC
