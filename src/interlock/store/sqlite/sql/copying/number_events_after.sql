-- Number further events above this one.
DELETE FROM sqlite_sequence WHERE name = 'events';
INSERT INTO sqlite_sequence (name, seq) VALUES ('events', :seq)
