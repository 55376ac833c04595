-- The items with a time limit for a claim that cannot be claimed: behind a gate, a pause, a block or their plan, or for a paused agent.
SELECT i.id FROM interlock.items i
WHERE i.id = ANY(%(items)s::bigint[]) AND i.status = 'pending' AND (
    (SELECT true FROM interlock.ready r WHERE r.id = i.id LIMIT 1) IS NULL
    OR (SELECT a.paused_why IS NOT NULL FROM interlock.agents a WHERE a.key = i.agent_key))
