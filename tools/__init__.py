"""Tools that inspect a compilation: the debug executor, explain and compare. Part of the driver."""
