-- Among the next items after `after`, those that ended before a time and that nothing needs, each with the item of its group; and
-- the last searched item, null if all of these arrived after the time, as then all later ones did too.
-- An item is needed while an item that absorbed it exists, a dedupe key names it, or messages of an item outside its group came
-- with it. Dead letters and tasks stay.
-- Each look-up is a separate subquery: joins would read whole tables where the planner expects many rows.
WITH RECURSIVE looked AS MATERIALIZED (
    SELECT id, status, created_us, ended_us, plan, absorbed_by FROM interlock.items
    WHERE id > %(after)s AND interlock.expect({schema}) ORDER BY id LIMIT %(limit)s
),
grouped (root, id) AS (
    SELECT id, id FROM looked
    WHERE ended_us < %(before_us)s AND status <> 'failed' AND plan IS NULL
        AND (absorbed_by IS NULL OR (SELECT a.id FROM interlock.items a WHERE a.id = looked.absorbed_by) IS NULL)
    UNION ALL
    SELECT g.root, absorbed.id FROM grouped g CROSS JOIN LATERAL (
        SELECT i.id FROM interlock.items i WHERE i.absorbed_by = g.id AND i.absorbed_by IS NOT NULL ORDER BY i.absorbed_by OFFSET 0
    ) AS absorbed
),
needed (root) AS (
    SELECT root FROM grouped g
    WHERE (SELECT true FROM interlock.dedupe_keys k WHERE k.item = g.id AND k.expires_us > %(now_us)s ORDER BY k.item LIMIT 1)
        OR (SELECT true FROM interlock.messages m WHERE m.origin = g.id AND m.origin <> m.item
            AND m.item <> ALL(ARRAY(SELECT o.id FROM grouped o WHERE o.root = g.root)) ORDER BY m.origin LIMIT 1)
)
SELECT (SELECT max(id) FROM looked HAVING min(created_us) < %(before_us)s), root, id FROM (SELECT) AS one LEFT JOIN grouped ON root NOT IN (SELECT root FROM needed)
