-- Whether a delivery is stored, decided on or not.
SELECT 1 FROM interlock.github_deliveries WHERE id = %(id)s
