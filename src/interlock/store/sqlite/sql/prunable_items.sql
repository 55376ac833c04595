-- Among the next items after `after`, those that ended before a time and that nothing needs, each with the item of its group; and
-- the last searched item, null if all of these arrived after the time, as then all later ones did too.
-- An item is needed while an item that absorbed it exists, a dedupe key names it, or messages of an item outside its group came
-- with it. Dead letters and tasks stay.
WITH RECURSIVE looked AS MATERIALIZED (
    SELECT id, status, created_us, ended_us, plan, absorbed_by FROM items WHERE id > :after ORDER BY id LIMIT :limit
),
grouped (root, id) AS (
    SELECT id, id FROM looked
    WHERE ended_us < :before_us AND status <> 'failed' AND plan IS NULL
        AND NOT EXISTS (SELECT 1 FROM items a WHERE a.id = looked.absorbed_by)
    UNION ALL
    SELECT g.root, i.id FROM grouped g JOIN items i ON i.absorbed_by = g.id
),
needed (root) AS (
    SELECT root FROM grouped g
    WHERE EXISTS (SELECT 1 FROM dedupe_keys k WHERE k.item = g.id AND k.expires_us > :now_us)
        OR EXISTS (SELECT 1 FROM messages m WHERE m.origin = g.id AND m.origin <> m.item
            AND NOT EXISTS (SELECT 1 FROM grouped o WHERE o.root = g.root AND o.id = m.item))
)
SELECT (SELECT max(id) FROM looked HAVING min(created_us) < :before_us), root, id FROM (SELECT 1) LEFT JOIN grouped ON root NOT IN (SELECT root FROM needed)
