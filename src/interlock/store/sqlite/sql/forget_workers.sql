-- One worker that ended, and some that were not seen for long.
DELETE FROM workers WHERE name = :gone OR name IN (
    SELECT name FROM workers WHERE seen_us < :before_us ORDER BY seen_us LIMIT :limit)
