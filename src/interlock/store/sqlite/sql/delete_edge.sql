-- An edge leaves its plan; the revision records what it was.
DELETE FROM edges WHERE source = ? AND target = ?
