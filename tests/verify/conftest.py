from __future__ import annotations

from collections.abc import Callable

import pytest
from startup_logs import LOGS

from recommender.catalog.catalog import Catalog, load_catalog
from recommender.verify.compare import Verification, verify_log
from recommender.verify.log import read_log


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return load_catalog()


@pytest.fixture(scope="session")
def verified(catalog: Catalog) -> Callable[..., Verification]:
    """Verifies the log in a text."""

    def verify(text: str, **asked: str) -> Verification:
        return verify_log(read_log([text.encode()]), catalog, name="a.log", **asked)

    return verify


@pytest.fixture(scope="session")
def real(verified: Callable[..., Verification]) -> dict[str, Verification]:
    """The five published excerpts by name."""
    return {path.stem: verified(path.read_text(encoding="utf-8")) for path in sorted(LOGS.glob("*.log"))}
