-- The position of the notices of one name.
SELECT seq, until_us, tries FROM interlock.marks WHERE name = %(notice)s
