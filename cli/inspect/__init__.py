"""`graphc inspect`: the contents of files, without compiling anything."""

HELP = "List the ops of a model, what is unsupported, a dump, an SBOM; compare two model files"
SUBCOMMANDS = ("ops", "check", "dump", "diff", "sbom")
