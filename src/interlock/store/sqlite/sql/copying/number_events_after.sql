-- Events are numbered above this one from here on.
DELETE FROM sqlite_sequence WHERE name = 'events';
INSERT INTO sqlite_sequence (name, seq) VALUES ('events', :seq)
