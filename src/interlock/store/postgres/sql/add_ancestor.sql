-- This store goes on from another one, and this is what is known about it; gives the name recorded.
INSERT INTO interlock.stores (id, state) VALUES (%(id)s, %(state)s)
ON CONFLICT (id) DO UPDATE SET state = excluded.state WHERE stores.state <> 'this'
RETURNING id
