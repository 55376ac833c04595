-- Open pull requests of runs, and commits with pending checks, the least recently read first.
SELECT repository, number, commit_id FROM interlock.github_heads
WHERE followed AND (outcome = 'open' OR (number = 0 AND ci_outcome = 'pending')) ORDER BY looked_us LIMIT %(limit)s
