-- The edges between pairs of tasks, where there are any: the first source and the first target, and so on.
SELECT e.* FROM unnest(%(sources)s::bigint[], %(targets)s::bigint[]) AS pair(source, target)
    JOIN interlock.edges e ON e.source = pair.source AND e.target = pair.target
