-- What a pull request closed is forgotten.
DELETE FROM github_closes WHERE repository = :repository AND pull = :pull
