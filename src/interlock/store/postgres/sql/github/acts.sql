-- Whether an account is an agent's on a lane: the lane's live run writes with it or has opened a pull request with it, or one of the
-- last `most` runs that wrote with it was live at a time.
SELECT EXISTS (
    SELECT 1 FROM (SELECT run, item, since_us FROM interlock.github_accounts WHERE lane = %(lane)s AND account = %(account)s ORDER BY run DESC LIMIT %(most)s) a
    WHERE EXISTS (SELECT 1 FROM interlock.items i WHERE i.id = a.item AND i.run = a.run)
        OR (a.since_us <= %(until_us)s AND EXISTS (SELECT 1 FROM interlock.runs r WHERE r.run = a.run AND r.ended_us >= %(from_us)s))
) OR EXISTS (
    SELECT 1 FROM interlock.items i
    JOIN interlock.github_links l ON l.run = i.run AND l.how <> 'closes'
    JOIN interlock.github_numbers n ON n.repository = l.repository AND n.number = l.number
    WHERE i.lane = %(lane)s AND i.status IN ('pending', 'in_progress') AND i.lane IS NOT NULL AND n.facts::jsonb ->> 'author' = %(account)s
)
