-- Open or close the gates of plans as decided. A gate in the right state is not written.
INSERT INTO interlock.gates AS g (plan, open) SELECT * FROM unnest(%s::bigint[], %s::boolean[])
ON CONFLICT (plan) DO UPDATE SET open = excluded.open WHERE g.open <> excluded.open
