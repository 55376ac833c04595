-- A lane is this transaction's until it ends.
SELECT lane FROM interlock.lanes WHERE lane = %(lane)s FOR NO KEY UPDATE
