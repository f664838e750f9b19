"""The kernel lab: a problem in one line, built, checked, scheduled, and timed beside other engines and its roof.

`read` reads the text, `kinds` has a file per family of problems, `trial` compiles and times, `grid` sweeps settings.
"""
