-- Claims the first ready items for this agent or for anyone, in order, never waiting; one event for each.
WITH moment AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us
),
claimed AS (
    UPDATE items AS item
    SET status = 'in_progress',
        attempt = attempt + 1,
        current_run = nextval('run_numbers'),
        run_agent = %(agent)s,
        run_started_us = now_us,
        due_us = now_us + 60000000
    FROM moment
    WHERE item.id = ANY (ARRAY(
        SELECT locked.id
        FROM (
            (SELECT id, sort_key, agent_key FROM items
             WHERE status = 'pending' AND due_us IS NULL AND agent_key = %(agent)s
             ORDER BY sort_key)
            UNION ALL
            (SELECT id, sort_key, agent_key FROM items
             WHERE status = 'pending' AND due_us IS NULL AND agent_key = ''
             ORDER BY sort_key)
            ORDER BY sort_key
        ) AS candidate
        -- Locked one by one inside the lateral query. A plain join would do, but when another worker commits
        -- between snapshot and lock, PostgreSQL tests the whole join again and reads the queue for each such row.
        -- There is no ORDER BY outside: a sort above the lock would lock every candidate.
        CROSS JOIN LATERAL (
            SELECT ready.id FROM items AS ready
            WHERE ready.id = candidate.id
              -- A CASE, so that the planner cannot prove that items_ready would serve here too:
              -- with stale statistics it then reads that whole index for each row.
              AND CASE ready.status
                  WHEN 'pending' THEN ready.due_us IS NULL AND ready.agent_key = candidate.agent_key
                  ELSE false
                  END
            FOR UPDATE SKIP LOCKED
        ) AS locked
        LIMIT %(batch)s
    ))
    RETURNING item.id, item.current_run, item.ticket, item.title, item.lane, item.run_started_us
),
recorded AS (
    INSERT INTO events (at_us, kind, item_id, run, lane, agent, reason)
    SELECT run_started_us, 'run.started', id, current_run, lane, %(agent)s, 'claimed'
    FROM claimed
)
SELECT id, current_run, ticket, title, lane FROM claimed;
