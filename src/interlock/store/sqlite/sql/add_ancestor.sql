-- Record a store that this one continues, with its data.
INSERT INTO stores (id, state) VALUES (:id, :state)
ON CONFLICT (id) DO UPDATE SET state = excluded.state WHERE stores.state <> 'this'
