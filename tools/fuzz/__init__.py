"""Random graphs against NumPy: what makes them, checks them in worker processes, shrinks what fails and reports it.

May import every room; nothing but `cli/fuzz.py` and the tests imports it.
"""
