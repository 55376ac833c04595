-- How many ready items would be claimed before this one.
SELECT count(*) FROM interlock.items
WHERE status = 'pending' AND due_us IS NULL AND agent_key IN ('', %(agent)s) AND sort_key < %(sort_key)s
