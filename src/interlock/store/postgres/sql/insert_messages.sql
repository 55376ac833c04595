-- Add messages, numbered within their items.
INSERT INTO interlock.messages (item, n, ticket, text, author, origin, at_us, sender, agent, reason, url, said)
SELECT * FROM unnest(%s::bigint[], %s::integer[], %s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::bigint[],
    %s::text[], %s::text[], %s::text[], %s::text[], %s::text[])
