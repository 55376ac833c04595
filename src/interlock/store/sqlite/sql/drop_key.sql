-- Delete the key of a refused arrival, which leaves no row, so that the key may come again.
DELETE FROM dedupe_keys WHERE project = ? AND key = ?
