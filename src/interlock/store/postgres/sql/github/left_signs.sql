-- Orphaned reactions of ended runs, and whether a live run shows the same one. Items are looked up by key: a join may be planned
-- as a scan of all of them.
SELECT s.run, s.item, s.repository, s.number, s.kind, s.subject, s.reaction, EXISTS (
    SELECT FROM interlock.github_signs AS other
    WHERE other.repository = s.repository AND other.kind = s.kind AND other.subject = s.subject
        AND (SELECT live.run = other.run FROM interlock.items AS live WHERE live.id = other.item))
FROM interlock.github_signs AS s LEFT JOIN interlock.runs AS r ON r.run = s.run
WHERE NOT EXISTS (SELECT FROM interlock.items AS i WHERE i.id = s.item AND i.run = s.run)
    AND (r.run IS NULL OR r.status IN ('lost', 'timed_out') OR r.ended_us < (SELECT coalesce(%(now_us)s, interlock.clock_us())) - %(after_us)s)
ORDER BY s.run LIMIT %(limit)s
