-- Give this store a name of 48 random bits.
INSERT INTO stores (id, state) VALUES (lower(hex(randomblob(6))), 'this')
