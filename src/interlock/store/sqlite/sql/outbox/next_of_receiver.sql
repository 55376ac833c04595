-- The time until an effect of a receiver can be taken; null if none is unsent.
SELECT due_us - :now_us FROM github_outboxes WHERE repository = :receiver AND number = 0 AND due_us IS NOT NULL
