-- Planner methods, triggers, vacuum and row counts are enabled for these sessions.
-- mend: Reset it for the database and the role (ALTER DATABASE … RESET, ALTER ROLE … RESET) or in postgresql.conf.
SELECT name || ' is ' || setting FROM pg_settings
WHERE (starts_with(name, 'enable_') AND setting = 'off' AND boot_val = 'on')
    OR (name IN ('autovacuum', 'track_counts') AND setting = 'off')
    OR (name = 'plan_cache_mode' AND setting <> 'auto')
    OR (name = 'session_replication_role' AND setting <> 'origin')
    OR (name IN ('from_collapse_limit', 'join_collapse_limit') AND setting ~ '^[0-7]$')
ORDER BY name
