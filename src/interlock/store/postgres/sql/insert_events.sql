-- Lines of history, numbered by transaction and place in it.
INSERT INTO interlock.events (seq, at_us, kind, reason, project, item, run, lane, agent, span_us, data)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[],
    %s::text[], %s::text[], %s::bigint[], %s::text[])
