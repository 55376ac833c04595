-- The stores that this one was copied from are not in use any more.
UPDATE interlock.stores SET state = 'gone' WHERE state = 'copied'
