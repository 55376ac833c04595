-- The numbers and times of unanswered completions.
SELECT c.n, c.at_us FROM plans p JOIN completions c ON c.plan = p.id AND c.n > p.answered_n WHERE p.id = :plan ORDER BY c.n
