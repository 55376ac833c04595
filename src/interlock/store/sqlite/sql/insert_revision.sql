-- One change of a graph, written once.
INSERT INTO revisions (plan, revision, base, at_us, "by", run, why, operations) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
