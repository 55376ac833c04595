-- The newest matching items of some statuses. Of each status the newest :looked items are read, until :limit of them match: the inner
-- order decides which are found first.
SELECT * FROM items WHERE id IN (
    SELECT found.id FROM json_each(:statuses) AS wanted CROSS JOIN items found ON found.id IN (
        SELECT i.id FROM (SELECT * FROM items INDEXED BY items_listed
            WHERE items.status = wanted.value COLLATE NOCASE AND items.id < :before ORDER BY items.id DESC LIMIT :looked) AS i
        WHERE (:lane IS NULL OR i.lane = :lane OR i.observed_lane = :lane)
            AND (:agent IS NULL OR i.agent_key = :agent OR i.run_agent = :agent)
            AND (:project IS NULL OR i.project = :project)
            AND (:types IS NULL OR i.type IN (SELECT value FROM json_each(:types)))
            AND (:label IS NULL OR EXISTS (SELECT 1 FROM json_each(i.labels) AS l WHERE l.value = :label))
            AND (:text IS NULL OR instr(lower(i.title), :text) > 0 OR instr(lower(i.lane), :text) > 0
                OR instr(lower(i.observed_lane), :text) > 0 OR instr(i.agent_key, :text) > 0 OR instr(i.run_agent, :text) > 0
                OR (SELECT 1 FROM dedupe_keys AS k WHERE k.item = i.id AND instr(lower(k.key), :text) > 0 LIMIT 1) IS NOT NULL)
        LIMIT :limit)
)
ORDER BY id DESC LIMIT :limit
