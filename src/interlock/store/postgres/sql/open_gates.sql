-- The gates of plans stand as was decided; one that stands so already is not touched.
INSERT INTO interlock.gates AS g (plan, open) SELECT * FROM unnest(%s::bigint[], %s::boolean[])
ON CONFLICT (plan) DO UPDATE SET open = excluded.open WHERE g.open <> excluded.open
