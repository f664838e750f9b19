.PHONY: check quick fix golden types

check:  ## lint, types, layering, tests
	.ci/check

quick:  ## under a minute: lint, layering, and the tests of every stage with one model of each format
	.ci/quick

types:
	.ci/types

fix:  ## what ruff can mend by itself
	ruff check --fix .
	ruff format .

golden:  ## write the expected texts anew; read the diff before committing it
	python -m pytest -q --update-golden
