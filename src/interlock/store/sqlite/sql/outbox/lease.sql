-- The queue that is due the longest is leased, unless so many effects were sent that the next would be too many.
UPDATE github_outboxes SET due_us = :now_us + :lease_us, token = :token
WHERE (repository, number) = (
    SELECT repository, number FROM github_outboxes
    WHERE due_us <= :now_us AND (SELECT free_us FROM github_pace) <= :now_us ORDER BY due_us LIMIT 1
) RETURNING repository, number
