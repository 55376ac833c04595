-- A change of a graph is written once.
INSERT INTO revisions (plan, revision, base, at_us, "by", run, why, operations) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
