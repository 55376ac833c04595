-- The newest items of some statuses that match. Each status is read from its newest on, so that without a filter no more
-- than :limit of each are read.
SELECT * FROM items WHERE id IN (
    SELECT found.id FROM json_each(:statuses) AS wanted CROSS JOIN items found ON found.id IN (
        SELECT i.id FROM items i INDEXED BY items_listed
        WHERE i.status = wanted.value COLLATE NOCASE AND i.id < :before
            AND (:lane IS NULL OR i.lane = :lane OR i.observed_lane = :lane)
            AND (:agent IS NULL OR i.agent_key = :agent OR i.run_agent = :agent)
            AND (:project IS NULL OR i.project = :project)
            AND (:type IS NULL OR i.type = :type)
        ORDER BY i.id DESC LIMIT :limit)
)
ORDER BY id DESC LIMIT :limit
