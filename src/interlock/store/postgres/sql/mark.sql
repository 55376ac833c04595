-- How far the notices of one name have come.
SELECT seq, until_us, tries FROM interlock.marks WHERE name = %(notice)s
