-- Give the store a new identity. The old one becomes an ancestor in this state.
UPDATE stores SET state = :state WHERE state = 'this'
