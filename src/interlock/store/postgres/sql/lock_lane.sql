-- Lock a lane until this transaction ends.
SELECT lane FROM interlock.lanes WHERE lane = %(lane)s FOR NO KEY UPDATE
