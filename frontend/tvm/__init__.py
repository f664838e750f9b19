"""TVM: graph JSON, parameter files and what its debug executor writes."""
