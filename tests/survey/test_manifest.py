from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow
import pytest
import torch

import cocoax
from cocoax.cautions import Caution
from cocoax.survey import Index
from cocoax.survey.manifest import Manifest, makers


def test_made_by__versions_and_threads(index: Index) -> None:
    plain = json.loads((index.folder / "manifest.json").read_text())["made_by"]
    assert plain["cocoax"] == [cocoax.__version__]
    assert plain["torch"] == [str(torch.__version__)]
    assert plain["numpy"] == [np.__version__]
    assert plain["pyarrow"] == [pyarrow.__version__]
    assert plain["threads"] == [str(torch.get_num_threads())]


def test_after__what_made_earlier_entries_is_kept() -> None:
    first = Manifest("e", "space", {}, "image", "", {}, 0.0, makers(2))
    assert first.after(None, True) == first
    later = replace(first, made_by={**makers(1), "torch": ["9.9"]})
    assert later.after(first, False).made_by == first.made_by  # nothing was made
    with pytest.warns(Caution, match="made on 2 threads a process, and goes on on 1: some networks round the last bit"):
        both = later.after(first, True)
    assert both.made_by["threads"] == ["1", "2"]
    assert both.made_by["torch"] == sorted([str(torch.__version__), "9.9"])
    assert both.made_by["numpy"] == [np.__version__]
