-- The presence of the known ones of the named agents: last claim, last report of a worker, an unexpired run.
SELECT key, seen_us, (SELECT max(w.seen_us) FROM workers w WHERE w.agent = agents.key),
    EXISTS (SELECT 1 FROM items r INDEXED BY items_running WHERE r.run IS NOT NULL AND r.run_agent = agents.key AND (r.due_us IS NULL OR r.due_us > :now_us)),
    overtake_after_s
FROM agents WHERE key IN (SELECT value FROM json_each(:agents))
