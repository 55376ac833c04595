-- A `coalesce` arrival finds who absorbs it, the first of each kind, however long the line is.
-- Serves: 31
DROP INDEX items_absorbable;
CREATE INDEX items_replaceable ON items (lane)
    WHERE status IN ('deferred', 'waiting') AND policy IN ('supersede', 'latest')
        AND (status = 'deferred' OR first_claimed_us IS NOT NULL OR reason = 'loop');
CREATE INDEX items_namesakes ON items (agent_key, lane, position, ticket, id) WHERE status = 'deferred';
CREATE INDEX items_retries ON items (agent_key, lane, position, ticket, id)
    WHERE status = 'waiting' AND first_claimed_us IS NOT NULL AND due_us IS NOT NULL;
