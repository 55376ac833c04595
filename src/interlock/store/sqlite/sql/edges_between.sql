-- The edges between pairs of tasks, where there are any: the first source and the first target, and so on.
SELECT e.* FROM json_each(:sources) AS s JOIN json_each(:targets) AS t ON t.key = s.key
    JOIN edges e ON e.source = s.value AND e.target = t.value
