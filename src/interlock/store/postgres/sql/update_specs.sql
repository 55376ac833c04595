-- Apply an edit to items that have not started. Labels come as one text each, joined by spaces.
UPDATE interlock.items AS i SET
    type = new.type, title = new.title, agent_key = new.agent_key, priority = new.priority, position = new.position, sort_key = new.sort_key,
    labels = string_to_array(new.labels, ' '), lease_s = new.lease_s, timeout_s = new.timeout_s,
    max_attempts = new.max_attempts, retry_lane = new.retry_lane
FROM unnest(
        %s::bigint[], %s::text[], %s::text[], %s::text[], %s::integer[], %s::integer[], %s::bigint[], %s::text[], %s::float8[],
        %s::float8[], %s::integer[], %s::text[]
    ) AS new(
        id, type, title, agent_key, priority, position, sort_key, labels, lease_s, timeout_s, max_attempts, retry_lane
    )
WHERE i.id = new.id
