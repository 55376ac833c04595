-- No agent has more runs than it may have at once, but for one edit of a plan.
-- mend: Raise the limit (interlock agents set NAME --max N) or wait: a limit lowered while runs go on ends none of them.
SELECT 'agent ' || a.key || ' has ' || count(*) || ' runs of ' || a.max_concurrency
FROM interlock.agents a JOIN interlock.items i ON i.run_agent = a.key AND i.status = 'in_progress' AND i.type <> 'plan.edit'
WHERE a.max_concurrency IS NOT NULL GROUP BY a.key, a.max_concurrency HAVING count(*) > a.max_concurrency
