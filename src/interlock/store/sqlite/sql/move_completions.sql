-- Move the times of unanswered completions with the clock: the next deadline counts from the oldest of them.
UPDATE completions SET at_us = at_us + :step_us
WHERE n > (SELECT answered_n FROM plans WHERE id = plan AND ended_us IS NULL)
