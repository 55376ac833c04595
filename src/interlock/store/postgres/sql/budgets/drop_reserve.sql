-- Let runs of a type hold back nothing.
DELETE FROM interlock.reserves WHERE type = %(type)s
