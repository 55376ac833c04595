-- A store has a name of its own, and knows which stores it comes from.
-- Serves: 8

-- This store and its ancestors. An ancestor that was `copied` may still be in use; one that is `gone` or `sealed` is not.
CREATE TABLE stores (
    id    TEXT PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('this', 'copied', 'gone', 'sealed'))
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX stores_this ON stores (state) WHERE state = 'this';
INSERT INTO stores (id, state) VALUES (lower(hex(randomblob(6))), 'this');
