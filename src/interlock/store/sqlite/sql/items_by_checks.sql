-- The newest items whose newest link has this outcome of checks. Links are read from the newest item on, at most :looked, until
-- there are enough: the inner order decides which are found first.
SELECT i.* FROM (SELECT * FROM github_links WHERE item < :before ORDER BY item DESC LIMIT :looked) AS l
CROSS JOIN github_heads AS h ON h.repository = l.repository AND h.number = l.number AND h.commit_id = l.commit_id AND h.ci_outcome = :ci
CROSS JOIN items AS i ON i.id = l.item
WHERE i.status IN (SELECT value FROM json_each(:statuses))
    AND (:lane IS NULL OR i.lane = :lane OR i.observed_lane = :lane)
    AND (:agent IS NULL OR i.agent_key = :agent OR i.run_agent = :agent)
    AND (:project IS NULL OR i.project = :project)
    AND (:types IS NULL OR i.type IN (SELECT value FROM json_each(:types)))
    AND (:label IS NULL OR EXISTS (SELECT 1 FROM json_each(i.labels) AS n WHERE n.value = :label))
    AND (:text IS NULL OR instr(lower(i.title), :text) > 0 OR instr(lower(i.lane), :text) > 0
        OR instr(lower(i.observed_lane), :text) > 0 OR instr(i.agent_key, :text) > 0 OR instr(i.run_agent, :text) > 0
        OR (SELECT 1 FROM dedupe_keys AS k WHERE k.item = i.id AND instr(lower(k.key), :text) > 0 LIMIT 1) IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM github_links AS o WHERE o.item = l.item
        AND (o.number, o.run, o.linked_us, o.commit_id) > (l.number, l.run, l.linked_us, l.commit_id))
LIMIT :limit
