-- Record a live run's account. Writes nothing for a run that has ended or has no lane.
INSERT INTO interlock.github_accounts (run, item, lane, account, since_us)
SELECT run, id, lane, %(account)s, coalesce(%(now_us)s, interlock.clock_us()) FROM interlock.items
WHERE id = %(item)s AND run = %(run)s AND lane IS NOT NULL AND interlock.expect({schema})
ON CONFLICT (run) DO UPDATE SET account = excluded.account
