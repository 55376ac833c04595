-- Completes the items whose run still is the current one; a run and an event for each.
WITH moment AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us
),
done AS (
    UPDATE items AS item
    SET status = 'completed', current_run = NULL, due_us = NULL
    FROM unnest(%(ids)s::bigint[], %(runs)s::bigint[]) AS given (id, run), moment
    WHERE item.id = given.id AND item.current_run = given.run
    RETURNING item.id, given.run, item.lane, item.ticket, item.run_agent, item.run_started_us, now_us
),
kept AS (
    INSERT INTO runs (run, item_id, agent, started_us, ended_us, status)
    SELECT run, id, run_agent, run_started_us, now_us, 'succeeded' FROM done
),
recorded AS (
    INSERT INTO events (at_us, kind, item_id, run, lane, agent, reason)
    SELECT now_us, 'run.finished', id, run, lane, run_agent, 'done' FROM done
)
SELECT ticket FROM done;
