-- Delete old workflow runs: GitHub has deleted their logs.
DELETE FROM github_workflow_runs WHERE (repository, id) IN (
    SELECT repository, id FROM github_workflow_runs WHERE begun_us < :before_us ORDER BY begun_us LIMIT :limit) RETURNING 1
