-- Delete old settled effects.
DELETE FROM github_effects WHERE (repository, number, place) IN (
    SELECT repository, number, place FROM github_effects WHERE done_us < :before_us ORDER BY done_us LIMIT :limit) RETURNING 1
