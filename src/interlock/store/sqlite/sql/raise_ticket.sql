-- Tickets up to this one have been used.
UPDATE counters SET value = max(value, :ticket) WHERE name = 'ticket'
