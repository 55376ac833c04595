-- An issue or pull request as it was read last.
SELECT repository, number, revision, facts, wanted FROM github_numbers WHERE repository = :repository AND number = :number
