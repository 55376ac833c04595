-- Open pull requests of runs, and commits whose checks go on: those that were looked at the longest ago first.
SELECT repository, number, commit_id FROM interlock.github_heads
WHERE followed AND (outcome = 'open' OR (number = 0 AND ci_outcome = 'pending')) ORDER BY looked_us LIMIT %(limit)s
