-- No pool exceeds its run limit, apart from one plan edit per agent.
-- mend: Raise the limit (interlock pools set NAME --max N) or wait: a limit lowered while runs go on ends none of them.
SELECT 'pool ' || name || ' has ' || running || ' runs of ' || max_concurrency FROM pool_runs WHERE running > max_concurrency
