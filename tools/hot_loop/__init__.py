"""The reason why a kernel is slow: its hot loop, the least cycles a core allows it, and the share that it reaches."""
