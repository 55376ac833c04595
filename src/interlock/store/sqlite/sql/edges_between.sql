-- The edges from the first source to the first target, from the second to the second, and so on.
SELECT e.* FROM json_each(:sources) AS s JOIN json_each(:targets) AS t ON t.key = s.key
    JOIN edges e ON e.source = s.value AND e.target = t.value
