-- The unsatisfied edges to a task, each with its source's current state: broken edges first, up to :limit.
SELECT t.key, i.status, t.broken > 0, e.* FROM edges e JOIN tasks t ON t.item = e.source JOIN items i ON i.id = e.source
WHERE e.target = :item AND e.state <> 'satisfied' ORDER BY e.state = 'broken' DESC, e.source LIMIT :limit
