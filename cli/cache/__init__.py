"""`graphc cache`: compiled models, kernels and weights that are kept between processes."""

HELP = "List, clean up or check the cache of compiled models, kernels and weights"
SUBCOMMANDS = ("ls", "gc", "verify")
