-- Whether an account is an agent's on a lane: the lane's live run writes with it or has opened a pull request with it, or one of the
-- last :most runs that wrote with it was live at a time.
SELECT EXISTS (
    SELECT 1 FROM (SELECT run, item, since_us FROM github_accounts WHERE lane = :lane AND account = :account ORDER BY run DESC LIMIT :most) a
    WHERE EXISTS (SELECT 1 FROM items i WHERE i.id = a.item AND i.run = a.run)
        OR (a.since_us <= :until_us AND EXISTS (SELECT 1 FROM runs r WHERE r.run = a.run AND r.ended_us >= :from_us))
) OR EXISTS (
    SELECT 1 FROM items i
    JOIN github_links l ON l.run = i.run AND l.how <> 'closes'
    JOIN github_numbers n ON n.repository = l.repository AND n.number = l.number
    WHERE i.lane = :lane AND i.status IN ('pending', 'in_progress') AND i.lane IS NOT NULL AND json_extract(n.facts, '$.author') = :account
)
