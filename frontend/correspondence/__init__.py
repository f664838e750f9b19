"""What each op is called in every format: one row per op serves reading, writing, documentation and tests.

`spelling` parses the cells of the `tables`, `row` is what a row says, `reading` and `writing` act on it. Imports the
Graph IR and `..op_builder`; no format's folder.
"""
