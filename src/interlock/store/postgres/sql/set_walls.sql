-- Set quota limits of agents, until which they start nothing. The later of two limits counts.
UPDATE interlock.agents AS a SET wall_us = new.wall_us, wall_why = new.why
FROM unnest(%s::text[], %s::bigint[], %s::text[]) AS new(key, wall_us, why)
WHERE a.key = new.key AND new.wall_us >= coalesce(a.wall_us, 0)
