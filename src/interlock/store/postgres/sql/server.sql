-- Whether the numbers belong to this server, as far as a standby can tell, and when they were last moved to another server.
SELECT CASE WHEN pg_is_in_recovery() THEN true
        ELSE coalesce((SELECT value FROM interlock.meta WHERE name = 'identity') = interlock.identity(), true) END,
    (SELECT to_timestamp(value::bigint / 1000000) AT TIME ZONE 'UTC' FROM interlock.meta WHERE name = 'changed_us')::text
