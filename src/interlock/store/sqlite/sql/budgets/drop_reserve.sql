-- Let runs of a type hold back nothing.
DELETE FROM reserves WHERE type = :type
