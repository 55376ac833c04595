-- The pending orders of a number, in order; one that waits for a person lets the next ones pass.
-- SQLite would read the whole history of the number by its primary key, which is also in order.
SELECT name, data, tries, due_us FROM github_consequences INDEXED BY github_consequences_owed
WHERE repository = :repository AND number = :number AND done_us IS NULL AND due_us IS NOT NULL ORDER BY place LIMIT :limit
