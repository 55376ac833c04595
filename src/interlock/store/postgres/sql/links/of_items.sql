-- The links of items, looked up item by item: the planner would read whole tables for many.
SELECT run, f.item, repository, number, commit_id, how, linked_us, name, head, branch, url, outcome, ci_outcome, ci_why, head_us, ci_us, newest
FROM unnest(%(items)s::bigint[]) AS wanted(item)
CROSS JOIN LATERAL (SELECT * FROM interlock.github_followed WHERE github_followed.item = wanted.item OFFSET 0) AS f
ORDER BY f.item, number DESC, run DESC, linked_us DESC, commit_id DESC
