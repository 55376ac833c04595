-- Numbers with due orders.
SELECT DISTINCT repository, number FROM (
    SELECT repository, number FROM interlock.github_consequences
    WHERE due_us <= (SELECT coalesce(%(now_us)s, interlock.clock_us())) ORDER BY due_us LIMIT %(limit)s
) AS due
