-- Tickets up to this one are used.
UPDATE counters SET value = max(value, :ticket) WHERE name = 'ticket'
