-- Correct future times at which agents were seen. An agent with a locked row is seen again soon.
UPDATE interlock.agents SET seen_us = %(now_us)s
WHERE key = ANY(ARRAY(SELECT key FROM interlock.agents WHERE seen_us > %(now_us)s ORDER BY key FOR NO KEY UPDATE SKIP LOCKED))
