-- How the numbers of items by status and priority change. Appended, so that nobody waits; `fold_tallies` adds them up.
INSERT INTO interlock.tally_changes (status, priority, n) SELECT * FROM unnest(%s::text[], %s::integer[], %s::integer[])
