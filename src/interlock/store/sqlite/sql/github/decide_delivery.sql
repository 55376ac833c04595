-- Record the decision on a delivery. Its id and outcome are kept.
UPDATE github_deliveries SET due_us = NULL, body = NULL, outcome = :outcome WHERE id = :id AND body IS NOT NULL
