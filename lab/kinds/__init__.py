"""Kinds of problems: each file reads the text of a family and builds its program; `lab.read` has the table."""
