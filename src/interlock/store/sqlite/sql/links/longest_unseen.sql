-- Open pull requests of runs, and commits with pending checks, the least recently read first.
SELECT repository, number, commit_id FROM github_heads
WHERE followed = 1 AND (outcome = 'open' OR (number = 0 AND ci_outcome = 'pending')) ORDER BY looked_us LIMIT :limit
