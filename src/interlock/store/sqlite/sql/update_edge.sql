-- Set the terms and state of an edge, as decided.
UPDATE edges SET "when" = ?4, on_cancel = ?5, state = ?6 WHERE source = ?1 AND target = ?2
