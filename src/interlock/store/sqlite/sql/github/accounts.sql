-- The accounts that the newest runs write with.
SELECT DISTINCT account FROM (SELECT account FROM github_accounts ORDER BY run DESC LIMIT :limit) AS newest ORDER BY account
