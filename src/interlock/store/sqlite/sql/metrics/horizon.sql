-- Every line of the history that has a number is there: one writes at a time.
SELECT 9223372036854775807
