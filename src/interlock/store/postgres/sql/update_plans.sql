-- Set all parts of a plan that the rules may change: its state, its counts, and its editor's deadline.
UPDATE interlock.plans AS p SET
    edit_deadline_s = new.edit_deadline_s, status = new.status, revision = new.revision,
    paused_why = new.paused_why, ended_us = new.ended_us, tasks = new.tasks, edges = new.edges,
    open_tasks = new.open_tasks, completed = new.completed, failed = new.failed, cycle_us = new.cycle_us,
    deadline_us = new.deadline_us, edit_item = new.edit_item, last_n = new.last_n, answered_n = new.answered_n,
    edits_completed = new.edits_completed, edits_timed_out = new.edits_timed_out,
    edits_refused = new.edits_refused, edits_rebased = new.edits_rebased, cycles = new.cycles,
    lock_us = new.lock_us, edits_failed = new.edits_failed
FROM unnest(
        %s::bigint[], %s::text[], %s::text[], %s::text[], %s::float8[], %s::text[], %s::bigint[],
        %s::integer[], %s::text[], %s::bigint[], %s::integer[], %s::integer[], %s::integer[], %s::integer[],
        %s::integer[], %s::bigint[], %s::bigint[], %s::bigint[], %s::integer[], %s::integer[], %s::integer[],
        %s::integer[], %s::integer[], %s::integer[], %s::integer[], %s::bigint[], %s::integer[]
    ) AS new(
        id, project, name, editor, edit_deadline_s, status, created_us, revision, paused_why, ended_us, tasks,
        edges, open_tasks, completed, failed, cycle_us, deadline_us, edit_item, last_n, answered_n,
        edits_completed, edits_timed_out, edits_refused, edits_rebased, cycles, lock_us, edits_failed
    )
WHERE p.id = new.id
