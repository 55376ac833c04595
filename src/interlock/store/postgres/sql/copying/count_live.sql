-- The number of live runs. They are not in `runs`, which has ended ones.
SELECT count(*) FROM interlock.items WHERE status = 'in_progress'
