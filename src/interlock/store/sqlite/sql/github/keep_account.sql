-- Record a live run's account. Writes nothing for a run that has ended or has no lane.
INSERT INTO github_accounts (run, item, lane, account, since_us)
SELECT run, id, lane, :account, :now_us FROM items WHERE id = :item AND run = :run AND lane IS NOT NULL
ON CONFLICT (run) DO UPDATE SET account = excluded.account
