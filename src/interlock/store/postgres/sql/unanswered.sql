-- The numbers and times of unanswered completions.
SELECT c.n, c.at_us FROM interlock.plans p JOIN interlock.completions c ON c.plan = p.id AND c.n > p.answered_n WHERE p.id = %(plan)s ORDER BY c.n
