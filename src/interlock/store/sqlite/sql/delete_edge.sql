-- Delete an edge of a plan. The revision records it.
DELETE FROM edges WHERE source = ? AND target = ?
