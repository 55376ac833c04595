-- The edges from the first source to the first target, from the second to the second, and so on.
SELECT e.* FROM unnest(%(sources)s::bigint[], %(targets)s::bigint[]) AS pair(source, target)
    JOIN interlock.edges e ON e.source = pair.source AND e.target = pair.target
