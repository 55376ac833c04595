-- Completes the items whose run still is the current one; leaves the rows that Interlock's finish leaves.
-- Agent and start come from the worker, which Interlock would not believe: it is the cheapest way, hence the limit.
WITH clock AS MATERIALIZED (
    SELECT interlock.clock_us() AS now_us, interlock.next_seq() AS first_seq
),
done AS (
    UPDATE interlock.items AS i SET
        status = 'completed',
        due_us = NULL,
        run = NULL,
        run_bits = NULL,
        run_agent = NULL,
        run_started_us = NULL,
        run_lease_s = NULL,
        lease_until_us = NULL,
        ended_us = clock.now_us,
        reason = 'reported',
        last_agent = i.run_agent
    FROM unnest(%(ids)s::bigint[], %(runs)s::bigint[], %(bits)s::bigint[]) AS given (id, run, bits), clock
    WHERE i.id = given.id AND i.run = given.run AND i.run_bits = given.bits
    RETURNING i.id, given.run, given.bits, i.title, i.project, i.priority, i.attempt, clock.now_us, clock.first_seq
),
tallied AS (
    INSERT INTO interlock.tally_changes (status, priority, n)
    SELECT moved.status, priority, sum(moved.n) FROM done CROSS JOIN (VALUES ('in_progress', -1), ('completed', 1)) AS moved (status, n)
    GROUP BY moved.status, priority
),
kept AS (
    INSERT INTO interlock.runs (run, item, attempt, agent, started_us, ended_us, status, reason, bits)
    SELECT run, id, attempt, %(agent)s, %(started_us)s, now_us, 'succeeded', 'reported', bits FROM done
),
logged AS (
    INSERT INTO interlock.events (seq, at_us, kind, reason, project, item, run, agent, span_us)
    SELECT first_seq - 1 + row_number() OVER (), now_us, 'run.succeeded', 'reported', project, id, run, %(agent)s,
        now_us - %(started_us)s
    FROM done
)
SELECT title FROM done;
