.PHONY: check quick fix golden types docs

check:  ## lint, types, layering, documentation, tests
	.ci/check

quick:  ## under a minute: lint, layering, and the tests of every stage with one model of each format
	.ci/quick

types:
	.ci/types

docs:  ## build the documentation into build/docs, with warnings as errors
	python docs/generate.py
	python docs/build.py

fix:  ## fix all that ruff can fix
	ruff check --fix .
	ruff format .

golden:  ## rewrite the expected texts; read the diff before committing it
	python -m pytest -q --update-golden
