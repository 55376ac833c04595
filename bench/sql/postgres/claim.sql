-- Starts the first ready items for anyone, in order, never waiting; leaves the rows that Interlock's claim leaves.
WITH clock AS MATERIALIZED (
    SELECT interlock.clock_us() AS now_us, interlock.next_seq() AS first_seq
),
picked AS MATERIALIZED (
    SELECT id FROM interlock.items
    WHERE status = 'pending' AND due_us IS NULL AND plan IS NULL AND agent_key = ''
    ORDER BY sort_key LIMIT %(batch)s FOR NO KEY UPDATE SKIP LOCKED
),
claimed AS (
    UPDATE interlock.items AS i SET
        status = 'in_progress',
        attempt = i.attempt + 1,
        run = nextval('interlock.run_numbers'),
        run_bits = interlock.random_bits(),
        run_agent = %(agent)s,
        run_started_us = clock.now_us,
        run_lease_s = 60,
        lease_until_us = clock.now_us + 60000000,
        due_us = clock.now_us + 60000000,
        delivered = i.message_count,
        first_claimed_us = clock.now_us
    FROM clock
    WHERE i.id = ANY (ARRAY(SELECT id FROM picked))
    RETURNING i.id, i.run, i.title, i.project, i.priority, i.run_started_us, i.created_us, clock.first_seq
),
tallied AS (
    INSERT INTO interlock.tally_changes (status, priority, n)
    SELECT moved.status, priority, sum(moved.n) FROM claimed CROSS JOIN (VALUES ('pending', -1), ('in_progress', 1)) AS moved (status, n)
    GROUP BY moved.status, priority
),
logged AS (
    INSERT INTO interlock.events (seq, at_us, kind, reason, project, item, run, agent, span_us)
    SELECT first_seq - 1 + row_number() OVER (), run_started_us, 'run.started', '', project, id, run, %(agent)s,
        run_started_us - created_us
    FROM claimed
)
SELECT id, run, title, run_started_us FROM claimed;
