-- Lines of history of this moment, by a transaction that has locked all it will lock.
WITH clock AS MATERIALIZED (SELECT coalesce(%s, interlock.clock_us()) AS now_us, interlock.next_seq() AS seq WHERE interlock.expect({schema}))
INSERT INTO interlock.events (seq, at_us, kind, reason, project, item, run, lane, agent, span_us, data)
SELECT seq + place - 1, now_us, kind, reason, project, item, run, lane, agent, span_us, data
FROM clock, unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::text[])
    WITH ORDINALITY AS line(kind, reason, project, item, run, lane, agent, span_us, data, place)
