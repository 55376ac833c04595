-- Orphaned reactions of ended runs, and whether a live run shows the same one.
SELECT s.run, s.item, s.repository, s.number, s.kind, s.subject, s.reaction, EXISTS (
    SELECT 1 FROM github_signs AS other JOIN items AS live ON live.id = other.item AND live.run = other.run
    WHERE other.repository = s.repository AND other.kind = s.kind AND other.subject = s.subject)
FROM github_signs AS s LEFT JOIN runs AS r ON r.run = s.run
WHERE NOT EXISTS (SELECT 1 FROM items AS i WHERE i.id = s.item AND i.run = s.run)
    AND (r.run IS NULL OR r.status IN ('lost', 'timed_out') OR r.ended_us < :now_us - :after_us)
ORDER BY s.run LIMIT :limit
