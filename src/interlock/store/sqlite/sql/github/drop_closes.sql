-- Delete the issues that a pull request closes.
DELETE FROM github_closes WHERE repository = :repository AND pull = :pull
