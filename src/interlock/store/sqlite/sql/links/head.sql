-- A pull request, or a commit in none, as last read.
SELECT repository, number, commit_id, revision, head, branch, url, outcome, ci_outcome, ci_why, followed, head_us, ci_us, looked_us
FROM github_heads WHERE repository = :repository AND number = :number AND commit_id = :commit_id
