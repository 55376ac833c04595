-- Add edges to a plan.
INSERT INTO interlock.edges (source, target, plan, "when", on_cancel, state)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::text[])
