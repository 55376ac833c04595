-- Jobs of PgQueuer that were queued and picked, and went: it deletes what is done.
UPDATE pgqueuer SET status = 'picked', heartbeat = now();
DELETE FROM pgqueuer;
