-- The last orders of a number, the newest first.
SELECT name, data, due_us, done_us, tries, item, outcome FROM interlock.github_consequences
WHERE repository = %(repository)s AND number = %(number)s
    AND place > (SELECT last_place FROM interlock.github_numbers WHERE repository = %(repository)s AND number = %(number)s) - %(limit)s
ORDER BY place DESC
