-- No effect has used up its retries.
-- mend: Look at the reason; then interlock github send --again.
SELECT r.name || '#' || e.number || ' ' || e.kind || ': ' || coalesce(e.outcome, 'no reason')
FROM interlock.github_effects AS e JOIN interlock.github_repositories AS r ON r.id = e.repository WHERE e.dead_us IS NOT NULL ORDER BY e.dead_us
