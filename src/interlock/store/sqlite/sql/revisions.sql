-- Revisions of a plan after one, oldest first.
SELECT * FROM revisions WHERE plan = :plan AND revision > :after ORDER BY revision LIMIT :limit
