"""The name of each op in every format: one row per op serves reading, writing, documentation and tests.

`spelling` parses the cells of the `tables`, `row` defines rows, `reading` and `writing` interpret them. Imports the
Graph IR and `..op_builder`, but no format's folder.
"""
