-- Set the places of tasks, as decided.
UPDATE interlock.tasks AS t SET
    rank = new.rank, unmet = new.unmet, broken = new.broken, doomed = new.doomed, removed_revision = new.removed_revision
FROM unnest(
        %s::bigint[], %s::bigint[], %s::text[], %s::bigint[], %s::integer[], %s::integer[], %s::boolean[],
        %s::integer[], %s::integer[]
    ) AS new(item, plan, key, rank, unmet, broken, doomed, added_revision, removed_revision)
WHERE t.item = new.item
