-- Correct times that were counted from a clock that was ahead: back-offs, graces and time limits for a claim end when they should
-- have. Such items were changed then, so the newest events, with times ahead, name them.
UPDATE interlock.items SET
    created_us = least(created_us, %(now_us)s),
    revoke_us = revoke_us - CASE WHEN revoke_us > %(now_us)s + %(step_us)s THEN %(step_us)s ELSE 0 END,
    claim_by_us = claim_by_us - CASE WHEN claim_by_us > %(now_us)s + %(step_us)s THEN %(step_us)s ELSE 0 END,
    due_us = due_us - CASE WHEN due_us > %(now_us)s + %(step_us)s AND attempt > 0 AND reason <> 'quota_wall' THEN %(step_us)s ELSE 0 END
WHERE ended_us IS NULL AND id = ANY(ARRAY(
    SELECT item FROM (SELECT item, at_us FROM interlock.events ORDER BY seq DESC LIMIT 20000) AS newest
    WHERE at_us > %(now_us)s AND item IS NOT NULL))
