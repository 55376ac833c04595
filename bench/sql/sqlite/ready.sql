-- The first ready items for this agent or for anyone, in order: two ordered index scans, merged.
SELECT id, sort_key FROM items WHERE status = 'pending' AND due_us IS NULL AND agent_key = :agent
UNION ALL
SELECT id, sort_key FROM items WHERE status = 'pending' AND due_us IS NULL AND agent_key = ''
ORDER BY sort_key LIMIT :batch;
