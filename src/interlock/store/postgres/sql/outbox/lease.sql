-- Lease the longest due queue of GitHub, unless the next effect would exceed the limit of sent effects. Two relays at once may exceed it by one.
WITH clock AS MATERIALIZED (SELECT coalesce(%(now_us)s, interlock.clock_us()) AS now_us),
due AS MATERIALIZED (
    SELECT repository, number FROM interlock.github_outboxes
    WHERE interlock.expect({schema}) AND due_us <= (SELECT now_us FROM clock) AND repository > 0
        AND (SELECT free_us FROM interlock.github_pace) <= (SELECT now_us FROM clock)
    ORDER BY due_us LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE interlock.github_outboxes AS box SET due_us = clock.now_us + %(lease_us)s, token = %(token)s
FROM due, clock WHERE box.repository = due.repository AND box.number = due.number RETURNING box.repository, box.number
