"""`graphc dev`: tools for work on graphc itself."""

HELP = "Tools for work on graphc: kernels, random tests, error bounds, this machine"
SUBCOMMANDS = ("kernel", "debug", "verify", "bisect", "fuzz", "ulp", "roofline")
