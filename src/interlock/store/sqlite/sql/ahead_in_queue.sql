-- How many ready items would be claimed before this one, up to :most.
SELECT count(*) FROM (
    SELECT 1 FROM (SELECT NULL AS plan UNION ALL SELECT id FROM open_plans) AS queue
        CROSS JOIN ready ON ready.plan IS queue.plan AND ready.agent_key IN ('', :agent) AND ready.sort_key < :sort_key
    LIMIT :most)
