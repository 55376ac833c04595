-- How many ready items would be claimed before this one.
SELECT (SELECT count(*) FROM interlock.items
    WHERE status = 'pending' AND due_us IS NULL AND plan IS NULL AND agent_key IN ('', %(agent)s)
        AND sort_key < %(sort_key)s)
    + (SELECT count(*) FROM interlock.gates g JOIN interlock.items t ON t.plan = g.plan AND t.status = 'pending'
        AND t.due_us IS NULL AND t.plan IS NOT NULL AND t.agent_key IN ('', %(agent)s) AND t.sort_key < %(sort_key)s
    WHERE g.open)
