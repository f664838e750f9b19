"""Helpers of the tests: `from graphc.tools.fuzz.guarded import guarded`."""
