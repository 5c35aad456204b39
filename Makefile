# What a contributor runs. Everything expects the project installed with its dev extra: pip install -e '.[dev]'
.PHONY: test lint types bench docs accuracy reserve speed slow all

all: lint types test docs

test:
	pytest

lint:
	ruff check .
	ruff format --check .

types:
	mypy

docs:
	pytest tests/docs

accuracy:
	python tests/measured/accuracy.py

reserve:
	python -m recommender.memory.refit

speed:
	python tests/speed/speed_accuracy.py

slow:
	pytest -m slow

bench:
	python tests/benchmarks/run.py
	python tests/benchmarks/speed.py
