-- A delivery that was decided on keeps its id, and what came of it.
UPDATE github_deliveries SET due_us = NULL, body = NULL, outcome = :outcome WHERE id = :id AND body IS NOT NULL
