-- The keys of the tasks that a task waits for, up to a limit.
SELECT t.key FROM interlock.edges e JOIN interlock.tasks t ON t.item = e.source
WHERE e.target = %(item)s AND e.state <> 'satisfied' ORDER BY t.item LIMIT (SELECT %(limit)s::integer)
