-- Set the terms and states of edges, as decided.
UPDATE interlock.edges AS e SET "when" = new."when", on_cancel = new.on_cancel, state = new.state
FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::text[])
    AS new(source, target, plan, "when", on_cancel, state)
WHERE e.source = new.source AND e.target = new.target
