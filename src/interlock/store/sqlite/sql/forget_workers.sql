-- Delete one ended worker, and some that were not seen for long.
DELETE FROM workers WHERE (name = :gone OR name IN (
    SELECT name FROM workers WHERE seen_us < :now_us - :kept_us ORDER BY seen_us LIMIT :limit))
