-- An issue or pull request as last read.
SELECT repository, number, revision, facts, wanted FROM github_numbers WHERE repository = :repository AND number = :number
