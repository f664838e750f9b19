"""Decompositions of operators that are not ops of the Graph IR, by family: functions that build several ops.

They take a node of any format, operands and then attributes. Imports `..op_builder` and the Graph IR.
"""
