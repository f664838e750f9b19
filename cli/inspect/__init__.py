"""`graphc inspect`: the contents of files, without compiling anything."""

HELP = "List the ops of a model or the tensors of a dump, or compare two model files"
SUBCOMMANDS = ("ops", "dump", "diff")
