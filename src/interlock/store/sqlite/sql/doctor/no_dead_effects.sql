-- No effect has used up its retries.
-- mend: Look at the reason; then interlock github send --again, or interlock notify send --again for a receiver of notices.
SELECT r.name || CASE WHEN e.number = 0 THEN '' ELSE '#' || e.number END || ' ' || e.kind || ': ' || coalesce(e.outcome, 'no reason')
FROM github_effects AS e JOIN github_repositories AS r ON r.id = e.repository WHERE e.dead_us IS NOT NULL ORDER BY e.dead_us
