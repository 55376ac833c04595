-- The stores that this one was copied from are not in use any more.
UPDATE stores SET state = 'gone' WHERE state = 'copied'
