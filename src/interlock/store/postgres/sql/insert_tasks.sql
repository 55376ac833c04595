-- Add tasks to a plan.
INSERT INTO interlock.tasks (item, plan, key, rank, unmet, broken, doomed, added_revision, removed_revision)
SELECT * FROM unnest(
    %s::bigint[], %s::bigint[], %s::text[], %s::bigint[], %s::integer[], %s::integer[], %s::boolean[],
    %s::integer[], %s::integer[]
)
