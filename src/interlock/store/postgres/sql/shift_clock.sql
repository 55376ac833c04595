-- Continue the store's time as if the server's clock had not been set.
UPDATE interlock.clock SET offset_us = offset_us - %(step_us)s
