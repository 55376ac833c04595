-- No agent exceeds its run limit, apart from one plan edit.
-- mend: Raise the limit (interlock agents set NAME --max N) or wait: a limit lowered while runs go on ends none of them.
SELECT 'agent ' || key || ' has ' || runs || ' runs of ' || max_concurrency FROM (
    SELECT a.key, a.max_concurrency, count(*) AS runs, count(*) FILTER (WHERE i.type = 'plan.edit') AS edits
    FROM interlock.agents a JOIN interlock.items i ON i.run_agent = a.key AND i.status = 'in_progress'
    WHERE a.max_concurrency IS NOT NULL GROUP BY a.key, a.max_concurrency
) AS busy WHERE runs - least(edits, 1) > max_concurrency
