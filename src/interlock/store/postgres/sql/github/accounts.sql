-- The accounts that the newest runs write with.
SELECT DISTINCT account FROM (SELECT account FROM interlock.github_accounts ORDER BY run DESC LIMIT %(limit)s) AS newest ORDER BY account
