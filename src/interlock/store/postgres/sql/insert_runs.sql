-- Runs that ended, written once.
INSERT INTO interlock.runs (run, item, attempt, agent, worker, started_us, ended_us, status, reason, result, error)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::integer[], %s::text[], %s::text[], %s::bigint[], %s::bigint[],
    %s::text[], %s::text[], %s::text[], %s::text[])
