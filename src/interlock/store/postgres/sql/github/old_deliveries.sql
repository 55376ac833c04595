-- The number of old decided deliveries that may be deleted.
SELECT count(*) FROM interlock.github_deliveries WHERE body IS NULL AND received_us < %(before_us)s
