-- The gates of plans are opened or closed as decided; a gate that is right already is not touched.
INSERT INTO interlock.gates AS g (plan, open) SELECT * FROM unnest(%s::bigint[], %s::boolean[])
ON CONFLICT (plan) DO UPDATE SET open = excluded.open WHERE g.open <> excluded.open
