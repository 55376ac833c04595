-- The links of items.
SELECT run, item, repository, number, commit_id, how, linked_us, name, head, branch, url, outcome, ci_outcome, ci_why, head_us, ci_us, newest
FROM github_followed WHERE item IN (SELECT value FROM json_each(:items))
ORDER BY item, number DESC, run DESC, linked_us DESC, commit_id DESC
