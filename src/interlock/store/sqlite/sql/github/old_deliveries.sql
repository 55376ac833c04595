-- How many deliveries were decided on so long ago that they may go.
SELECT count(*) FROM github_deliveries WHERE body IS NULL AND received_us < :before_us
