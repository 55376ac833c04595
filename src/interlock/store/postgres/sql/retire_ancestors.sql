-- Mark the stores that this one was copied from as no longer in use.
UPDATE interlock.stores SET state = 'gone' WHERE state = 'copied'
