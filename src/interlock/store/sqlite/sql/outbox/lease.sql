-- Lease the longest due queue of GitHub, unless the next effect would exceed the limit of sent effects.
UPDATE github_outboxes SET due_us = :now_us + :lease_us, token = :token
WHERE (repository, number) = (
    SELECT repository, number FROM github_outboxes
    WHERE due_us <= :now_us AND repository > 0 AND (SELECT free_us FROM github_pace) <= :now_us ORDER BY due_us LIMIT 1
) RETURNING repository, number
