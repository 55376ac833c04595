-- A refused arrival leaves no row, so its key may come again.
DELETE FROM dedupe_keys WHERE project = ? AND key = ?
