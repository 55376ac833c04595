-- Create the rows of new lanes before an item names them.
INSERT INTO lanes (lane) SELECT value FROM json_each(:lanes) WHERE true ON CONFLICT DO NOTHING
