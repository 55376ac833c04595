-- Notify waiting claims, in a separate transaction: a notification takes a lock of the whole database.
SELECT pg_notify('interlock_ready', '')
