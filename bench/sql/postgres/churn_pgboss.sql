-- Jobs of pg-boss that were created and active, and are completed.
UPDATE pgboss.job SET state = 'active', started_on = now();
UPDATE pgboss.job SET state = 'completed', completed_on = now();
