-- Numbers with due orders.
SELECT DISTINCT repository, number FROM (
    SELECT repository, number FROM github_consequences WHERE due_us <= :now_us ORDER BY due_us LIMIT :limit
)
