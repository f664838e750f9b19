.PHONY: check fix golden types

check:  ## lint, types, layering, tests
	.ci/check

types:
	.ci/types

fix:  ## what ruff can mend by itself
	ruff check --fix .
	ruff format .

golden:  ## write the expected texts anew; read the diff before committing it
	python -m pytest -q --update-golden
