-- Lock the agents whose rows this transaction will write, in a fixed order, before any lane.
SELECT key FROM interlock.agents WHERE key = ANY(%(agents)s::text[]) ORDER BY key FOR NO KEY UPDATE
