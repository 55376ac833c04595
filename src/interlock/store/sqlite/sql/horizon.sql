-- Every numbered event is visible, as there is one writer at a time.
SELECT 9223372036854775807
