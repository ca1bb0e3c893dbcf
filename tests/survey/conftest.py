from __future__ import annotations

import pytest

from cocoax.survey import Index, build
from tests.survey import photos


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """An index of twelve dawns and twelve dusks, which tests only read."""
    folder = tmp_path_factory.mktemp("data")
    return build(photos.encoder(), photos.write(folder / "photos", 12), folder / "index", photos.METHOD, shard=7)
