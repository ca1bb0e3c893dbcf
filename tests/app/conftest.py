"""A served page; without gradio there is nothing here to test."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from tests.app.serving import serving

collect_ignore_glob = [] if importlib.util.find_spec("gradio") else ["test_*.py"]


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A page with the small encoder, served by a process of its own."""
    with serving(tmp_path_factory.mktemp("server")) as (_, address):
        yield address
