-- Record a store that this one continues, with its data. Gives the recorded name.
INSERT INTO interlock.stores (id, state) VALUES (%(id)s, %(state)s)
ON CONFLICT (id) DO UPDATE SET state = excluded.state WHERE stores.state <> 'this'
RETURNING id
