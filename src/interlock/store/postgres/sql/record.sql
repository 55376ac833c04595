-- Write the records of a transaction: ended runs, each once; events; and the changes of the counts of items by status and priority,
-- appended, so that no transaction waits for another.
WITH ended AS (
    INSERT INTO interlock.runs (run, item, attempt, agent, worker, started_us, ended_us, status, reason, result, error, bits)
    SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::integer[], %s::text[], %s::text[], %s::bigint[], %s::bigint[],
        %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[])
),
counted AS (
    INSERT INTO interlock.tally_changes (was, status, priority, n)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::integer[], %s::integer[])
)
INSERT INTO interlock.events (seq, at_us, kind, reason, project, item, run, lane, agent, span_us, data)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[],
    %s::text[], %s::text[], %s::bigint[], %s::text[])
