-- Delete old workflow runs: GitHub has deleted their logs.
DELETE FROM interlock.github_workflow_runs WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM interlock.github_workflow_runs WHERE begun_us < %(before_us)s ORDER BY begun_us LIMIT %(limit)s FOR UPDATE SKIP LOCKED)) RETURNING 1
