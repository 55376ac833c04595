-- Agents whose rows this transaction will write, locked in one order before any lane.
SELECT key FROM interlock.agents WHERE key = ANY(%(agents)s::text[]) ORDER BY key FOR NO KEY UPDATE
