"""The rules of a series: RFC issues of which one at a time is assigned."""
