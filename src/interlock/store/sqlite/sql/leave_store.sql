-- The store is another one from here on; the one that it was is now an ancestor in this state.
UPDATE stores SET state = :state WHERE state = 'this'
