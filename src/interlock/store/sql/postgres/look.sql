-- An agent as it was set, and whether any item's time has come: all a claim must know beforehand.
SELECT due.now, a.key, a.name, a.max_concurrency, a.types, a.labels, a.paused_why, a.seen_us
FROM (
    SELECT EXISTS (
        SELECT 1 FROM interlock.items
        WHERE status IN ('in_progress', 'waiting', 'pending') AND due_us IS NOT NULL
            AND due_us <= coalesce(%(now_us)s, (SELECT interlock.now_us()))
    ) AS now
) AS due LEFT JOIN interlock.agents a ON a.key = %(agent)s
