-- The items with a time limit for a claim that cannot be claimed: behind a gate, a pause, a block or their plan, or for a paused agent.
SELECT i.id FROM items i
WHERE i.id IN (SELECT value FROM json_each(:items)) AND i.status = 'pending' AND (
    NOT EXISTS (SELECT 1 FROM ready r WHERE r.id = i.id)
    OR EXISTS (SELECT 1 FROM agents a WHERE a.key = i.agent_key AND a.paused_why IS NOT NULL))
