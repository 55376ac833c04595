-- Add changes of a graph, each once.
INSERT INTO interlock.revisions (plan, revision, base, at_us, "by", run, why, operations)
SELECT * FROM unnest(
    %s::bigint[], %s::integer[], %s::integer[], %s::bigint[], %s::text[], %s::bigint[], %s::text[], %s::text[]
)
