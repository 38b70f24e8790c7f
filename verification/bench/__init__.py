"""Benchmarks: scripts that print a table and write JSON. They judge nothing and no test times anything."""
