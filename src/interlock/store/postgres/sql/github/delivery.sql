-- A delivery that is not decided on.
SELECT id, event, body, tries FROM interlock.github_deliveries WHERE id = %(id)s AND body IS NOT NULL
