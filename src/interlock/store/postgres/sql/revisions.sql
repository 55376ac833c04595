-- Revisions of a plan after one, oldest first.
SELECT * FROM interlock.revisions WHERE plan = %(plan)s AND revision > %(after)s ORDER BY revision LIMIT %(limit)s
