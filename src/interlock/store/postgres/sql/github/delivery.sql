-- An undecided delivery.
SELECT id, event, body, tries FROM interlock.github_deliveries WHERE id = %(id)s AND body IS NOT NULL
