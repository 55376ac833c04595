-- Items by what is asked; newest first among the ended, queue order is up to the caller.
SELECT * FROM items
WHERE (:statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses)))
    AND (:lane IS NULL OR lane = :lane OR observed_lane = :lane)
    AND (:agent IS NULL OR agent_key = :agent OR run_agent = :agent)
    AND (:project IS NULL OR project = :project)
    AND (:type IS NULL OR type = :type)
ORDER BY id DESC LIMIT :limit
