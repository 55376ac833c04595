-- The live runs of some items and some ended runs, with the parts of their handles and their agents.
SELECT run, id, run_bits, run_agent FROM interlock.items
WHERE id = ANY(%(items)s::bigint[]) AND run IS NOT NULL
UNION ALL
SELECT run, item, bits, agent FROM interlock.runs WHERE run = ANY(%(runs)s::bigint[])
