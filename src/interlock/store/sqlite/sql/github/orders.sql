-- The last orders of a number, the newest first.
SELECT name, data, due_us, done_us, tries, item, outcome FROM github_consequences
WHERE repository = :repository AND number = :number
    AND place > (SELECT last_place FROM github_numbers WHERE repository = :repository AND number = :number) - :limit
ORDER BY place DESC
