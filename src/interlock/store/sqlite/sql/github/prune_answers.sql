-- Delete old answers of GitHub.
DELETE FROM github_answers WHERE key IN (
    SELECT key FROM github_answers WHERE kept_us < :before_us ORDER BY kept_us LIMIT :limit) RETURNING 1
