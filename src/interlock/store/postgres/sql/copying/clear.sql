-- Delete every row, derived data included. The store keeps its schema, its name, its clock and what it says about itself.
DO $$
BEGIN
    EXECUTE (
        SELECT 'TRUNCATE ' || string_agg(format('interlock.%I', tablename), ', ') FROM pg_tables
        WHERE schemaname = 'interlock' AND tablename NOT IN ('migrations', 'meta', 'stores', 'clock')
    );
END $$
