-- This store goes on from another one, and this is what is known about it.
INSERT INTO stores (id, state) VALUES (:id, :state)
ON CONFLICT (id) DO UPDATE SET state = excluded.state WHERE stores.state <> 'this'
