-- The last numbers allocated to items, runs, tickets and events.
SELECT (SELECT last_value FROM interlock.item_ids), (SELECT last_value FROM interlock.run_numbers),
    (SELECT last_value FROM interlock.tickets), (SELECT last_value + 1 << 16 FROM interlock.event_numbers) - 1
