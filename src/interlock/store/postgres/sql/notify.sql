-- Whoever waits for work should look. A transaction of its own: a notice takes a lock of the whole database.
SELECT pg_notify('interlock_ready', '')
