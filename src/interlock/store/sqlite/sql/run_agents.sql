-- The live runs of some items and some ended runs, with the parts of their handles and their agents.
SELECT run, id, run_bits, run_agent FROM items
WHERE id IN (SELECT value FROM json_each(:items)) AND run IS NOT NULL
UNION ALL
SELECT run, item, bits, agent FROM runs WHERE run IN (SELECT value FROM json_each(:runs))
