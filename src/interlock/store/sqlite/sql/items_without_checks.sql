-- The newest items of whose checks nothing is known: without a link, or whose newest link says nothing. Read from the newest on,
-- :looked at most, until there are enough: the inner order decides which are found first.
SELECT i.* FROM (SELECT * FROM items WHERE id < :before ORDER BY id DESC LIMIT :looked) AS i
WHERE i.status IN (SELECT value FROM json_each(:statuses))
    AND (:lane IS NULL OR i.lane = :lane OR i.observed_lane = :lane)
    AND (:agent IS NULL OR i.agent_key = :agent OR i.run_agent = :agent)
    AND (:project IS NULL OR i.project = :project)
    AND (:type IS NULL OR i.type = :type)
    AND (SELECT h.ci_outcome FROM github_links AS l
        JOIN github_heads AS h ON h.repository = l.repository AND h.number = l.number AND h.commit_id = l.commit_id
        WHERE l.item = i.id ORDER BY l.number DESC, l.run DESC, l.linked_us DESC, l.commit_id DESC LIMIT 1) IS NULL
LIMIT :limit
