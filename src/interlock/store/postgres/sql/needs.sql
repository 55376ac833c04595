-- The unsatisfied edges to a task, each with its source's current state: broken edges first, up to a limit.
SELECT t.key, i.status, t.broken > 0, e.* FROM interlock.edges e JOIN interlock.tasks t ON t.item = e.source JOIN interlock.items i ON i.id = e.source
WHERE e.target = %(item)s AND e.state <> 'satisfied' ORDER BY e.state = 'broken' DESC, e.source LIMIT (SELECT %(limit)s::integer)
