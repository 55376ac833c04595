-- Add a change of a graph, once.
INSERT INTO revisions (plan, revision, base, at_us, "by", run, why, operations) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
