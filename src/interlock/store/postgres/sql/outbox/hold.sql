-- Whether a lease holds; the queue is locked.
SELECT 1 FROM interlock.github_outboxes
WHERE interlock.expect({schema}) AND repository = %(repository)s AND number = %(number)s AND token = %(token)s FOR UPDATE
