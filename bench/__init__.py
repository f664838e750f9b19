"""Measured claims only: contenders, interleaved timing, and the workloads the README's tables come from."""
