-- Add plans.
INSERT INTO interlock.plans (
    id, project, name, editor, edit_deadline_s, status, created_us, revision, paused_why, ended_us, tasks,
    edges, open_tasks, completed, failed, cycle_us, deadline_us, edit_item, last_n, answered_n,
    edits_completed, edits_timed_out, edits_refused, edits_rebased, cycles, lock_us, edits_failed
)
SELECT * FROM unnest(
    %s::bigint[], %s::text[], %s::text[], %s::text[], %s::float8[], %s::text[], %s::bigint[], %s::integer[],
    %s::text[], %s::bigint[], %s::integer[], %s::integer[], %s::integer[], %s::integer[], %s::integer[],
    %s::bigint[], %s::bigint[], %s::bigint[], %s::integer[], %s::integer[], %s::integer[], %s::integer[],
    %s::integer[], %s::integer[], %s::integer[], %s::bigint[], %s::integer[]
)
