-- An edge leaves its plan; the revision keeps what it was.
DELETE FROM edges WHERE source = ? AND target = ?
