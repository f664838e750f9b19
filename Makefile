.PHONY: check exhaustive quick fix golden types docs engines

check:  ## lint, types, layering, documentation, tests
	.ci/check

exhaustive:  ## every case of every test; `make check` takes an eighth of the large grids, a different eighth each day
	python -m pytest -q -n 2 -rs --exhaustive

quick:  ## half a minute: lint, and the tests nearest to the changed files
	.ci/quick

types:
	.ci/types

engines:  ## the tests of MLServer and Ray, which need other packages than all others, each in a separate environment
	.ci/engines

docs:  ## build the documentation into build/docs, with warnings as errors
	python docs/generate.py
	python docs/build.py

fix:  ## fix all that ruff can fix
	ruff check --fix .
	ruff format .

golden:  ## rewrite the expected texts; read the diff before committing it
	python -m pytest -q --update-golden
