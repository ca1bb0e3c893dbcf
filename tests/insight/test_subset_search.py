"""Sets of parts, and the search for the smallest one, against all sets of games that are small enough to look at."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cocoax
from cocoax.inputs import Names, Picture
from cocoax.insight.minimal_sets import _kept_shares, _parts_of
from cocoax.insight.subset_search import SmallestSetSearch, Subsets, names_of, touching_regions
from cocoax.masking import grid_segments
from tests.insight.games import pictures, subsets, table


def game(parts: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return main effects and interactions of pairs."""
    random = np.random.default_rng(seed)
    pairs = np.triu(random.normal(0, 0.1, (parts, parts)), 1)
    return random.normal(0.3, 0.3, parts), pairs


def worth(sets: np.ndarray, rules: tuple[np.ndarray, np.ndarray], level: float) -> np.ndarray:
    sets = np.asarray(sets, float)
    gains: np.ndarray = sets @ rules[0] + ((sets @ rules[1]) * sets).sum(1) - level
    return gains


def least(parts: int, rules: tuple[np.ndarray, np.ndarray], level: float) -> int:
    return next(size for size in range(1, parts + 1) if (worth(subsets(parts, size), rules, level) >= 0).any())


@pytest.mark.parametrize("seed", range(6))
def test_search__finds_the_smallest(seed: int) -> None:
    parts, rules = 9, game(9, seed)
    level = 0.6 * float(worth(np.ones((1, parts)), rules, 0.0)[0])
    known = np.r_[subsets(parts, 1), subsets(parts, 2)[::3], np.ones((1, parts), np.uint8)]
    search = SmallestSetSearch(lambda sets: worth(sets, rules, level), known, worth(known, rules, level), budget=60)
    found = search.smallest()
    assert found is not None
    assert worth(found[None], rules, level)[0] >= 0
    assert int(found.sum()) == least(parts, rules, level)
    assert search.calls <= 60


def test_search__goes_through_no_more_sets_than_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.gaussian_process import GaussianProcessRegressor as Process

    parts, rules, seen = 12, game(12, 0), []
    for name in ("fit", "predict"):
        own = getattr(Process, name)
        monkeypatch.setattr(
            Process, name, lambda self, sets, *rest, own=own, **more: seen.append(len(sets)) or own(self, sets, *rest, **more)
        )
    monkeypatch.setattr("cocoax.insight.subset_search._MAX_PROCESS_SETS", 320)
    monkeypatch.setattr("cocoax.insight.subset_search._SETS_PER_PREDICTION", 400)
    level = 0.6 * float(worth(np.ones((1, parts)), rules, 0.0)[0])
    known = np.r_[np.ones((1, parts)), np.random.default_rng(0).integers(0, 2, (1500, parts))]
    search = SmallestSetSearch(lambda sets: worth(sets, rules, level), known, worth(known, rules, level), budget=60)
    found = search.smallest()
    assert found is not None
    assert int(found.sum()) == least(parts, rules, level)
    assert max(seen) <= 400


def test_search__never_encodes_a_set_twice_or_one_that_is_known() -> None:
    parts, rules, asked = 6, game(6, 1), []

    def play(sets: np.ndarray) -> np.ndarray:
        asked.extend(row.tobytes() for row in sets.astype(np.uint8))
        return worth(sets, rules, 1.0)

    known = subsets(parts, 1)
    SmallestSetSearch(play, known, worth(known, rules, 1.0), budget=64).smallest()
    assert len(set(asked)) == len(asked)
    assert not {row.tobytes() for row in known} & set(asked)


def test_search__knows_when_all_smaller_ones_were_tried() -> None:
    rules = (np.full(4, 0.25), np.zeros((4, 4)))  # three of four are needed
    known = np.r_[subsets(4, 1), subsets(4, 2), np.ones((1, 4), np.uint8)]
    search = SmallestSetSearch(lambda sets: worth(sets, rules, 0.7), known, worth(known, rules, 0.7), budget=20)
    found = search.smallest()
    assert found is not None
    assert int(found.sum()) == 3
    assert search.tried_all(2)
    assert search.failed[2] == 6
    assert not search.tried_all(3)


def test_search__keeps_to_allowed_parts() -> None:
    rules = (np.array([5.0, 1.0, 1.0, 1.0]), np.zeros((4, 4)))
    known = subsets(4, 1)
    allowed = np.array([False, True, True, True])
    search = SmallestSetSearch(lambda sets: worth(sets, rules, 2.0), known, worth(known, rules, 2.0), 20, allowed)
    found = search.smallest()
    assert found is not None
    assert found[0] == 0
    assert int(found.sum()) == 2


def test_search__nothing_does_it() -> None:
    rules = (np.full(3, 0.1), np.zeros((3, 3)))
    known = subsets(3, 1)
    assert SmallestSetSearch(lambda sets: worth(sets, rules, 9.0), known, worth(known, rules, 9.0), 20).smallest() is None


def test_search__too_many_sets_to_enumerate() -> None:
    parts = 30
    rules = (np.linspace(0.0, 1.0, parts), np.zeros((parts, parts)))
    random = np.random.default_rng(0)
    known = np.r_[(random.random((200, parts)) < 0.5).astype(np.uint8), np.ones((1, parts), np.uint8)]
    search = SmallestSetSearch(lambda sets: worth(sets, rules, 7.0), known, worth(known, rules, 7.0), 80)
    found = search.smallest()
    assert found is not None
    assert int(found.sum()) == 8  # the eight largest sum to 7.03


def test_search__a_set_that_a_run_drew_twice_is_tried_once() -> None:
    rules = (np.full(4, 0.25), np.zeros((4, 4)))
    known = np.r_[np.repeat(subsets(4, 2)[:2], 5, 0), np.ones((1, 4), np.uint8)]
    search = SmallestSetSearch(lambda sets: worth(sets, rules, 0.7), known, worth(known, rules, 0.7), budget=20)
    assert search.failed == {2: 2}
    assert not search.tried_all(2)


def test_search__sets_of_other_parts_do_not_count() -> None:
    rules = (np.full(4, 0.25), np.zeros((4, 4)))
    known = subsets(4, 1)
    allowed = np.array([True, True, False, False])
    search = SmallestSetSearch(lambda sets: worth(sets, rules, 0.4), known[2:], worth(known[2:], rules, 0.4), 20, allowed)
    assert not search.tried_all(1)


def test_search__a_smaller_set_may_do_what_a_larger_one_does_not() -> None:
    def play(sets: np.ndarray) -> np.ndarray:
        return np.where(sets.sum(1) == 2, -1.0, np.where(sets[:, 0] == 1, 0.5, -0.2))

    known = np.r_[subsets(4, 2), subsets(4, 3)]
    search = SmallestSetSearch(play, known, play(known), budget=20)
    found = search.smallest()
    assert found is not None
    assert found.tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("seed", range(8))
def test_reduced__needs_each_of_its_parts(seed: int) -> None:
    """Whatever set it begins with: what is left does it, and without any one part it does not, by enumeration."""
    parts, rules = 8, game(8, seed)
    level = 0.5 * float(worth(np.ones((1, parts)), rules, 0.0)[0])
    known = np.ones((1, parts), np.uint8)
    search = SmallestSetSearch(lambda sets: worth(sets, rules, level), known, worth(known, rules, level), budget=2**parts)
    found, irreducible = search.reduced(known[0])
    assert irreducible
    assert worth(found[None], rules, level)[0] >= 0
    lacking = found[None] * (1 - np.eye(parts, dtype=np.uint8))[found == 1]
    assert (worth(lacking, rules, level) < 0).all()


def test_reduced__is_not_said_to_be_where_the_budget_does_not_go_so_far() -> None:
    rules = (np.full(4, 0.25), np.zeros((4, 4)))
    known = np.ones((1, 4), np.uint8)
    search = SmallestSetSearch(lambda sets: worth(sets, rules, 0.7), known, worth(known, rules, 0.7), budget=3)
    found, irreducible = search.reduced(known[0])
    assert found.tolist() == [1, 1, 1, 1]
    assert not irreducible
    assert search.calls == 0


def test_subsets__keep_whole_parts() -> None:
    labels = grid_segments(4, 4, 2)
    masks = Subsets(labels, torch.tensor([[1, 0, 0, 1], [0, 0, 0, 0]], dtype=torch.uint8))
    assert len(masks) == 2
    assert set(masks.tensors) == {"labels", "bits"}
    full = masks.full(slice(0, 1))[0]
    assert full.sum() == 8
    assert full[0, 0] == full[3, 3] == 1
    assert full[0, 3] == 0


def test_parts_of__segments_cells_and_columns() -> None:
    encoder, picture, _, _ = pictures()
    assert torch.equal(_parts_of(cocoax.KernelShap(samples=6, grid=2).run(encoder, picture)), grid_segments(16, 16, 2))
    assert torch.equal(_parts_of(cocoax.Rise(samples=10, grid=3).run(encoder, picture)), grid_segments(16, 16, 3))
    rows, row, _, _ = table()
    assert torch.equal(_parts_of(cocoax.Rise(samples=10).run(rows, row)), torch.arange(8))


def test_shares__are_means_over_parts() -> None:
    encoder, picture, _, _ = pictures()
    run = cocoax.Rise(samples=10, grid=3).run(encoder, picture)
    labels = _parts_of(run)
    full = run.masks.full(slice(0, 10))
    slow = np.array([[float(mask[labels == part].double().mean()) for part in range(9)] for mask in full])
    np.testing.assert_allclose(_kept_shares(run.masks, labels).numpy(), slow, atol=1e-6)
    shap = cocoax.KernelShap(samples=30, grid=3).run(encoder, picture)
    assert torch.equal(_kept_shares(shap.masks, _parts_of(shap)), shap.masks.bits.double())  # type: ignore[attr-defined]


def test_names_of__words_cells_and_others() -> None:
    assert names_of(torch.tensor([0, 0, 1]), Names(("a", "b", "c"))) == ("a b", "c")
    assert names_of(grid_segments(4, 6, (2, 3)), Picture())[:4] == ("top left", "top centre", "top right", "bottom left")
    corners = torch.tensor([[0, 0, 4, 4, 1, 1], [2, 2, 4, 4, 3, 3]]).repeat_interleave(3, 0)
    corners[0, 0] = 5
    names = ("top left", "top right", "bottom left", "bottom right", "middle part", "top left 2")
    assert names_of(corners, Picture()) == names


@pytest.mark.parametrize("seed", range(4))
def test_regions_of__parts_that_touch_by_flooding(seed: int) -> None:
    random = np.random.default_rng(seed)
    labels = torch.from_numpy(random.integers(-1, 12, (4, 5)).repeat(2, 0).repeat(3, 1))
    parts = tuple(sorted(set(random.choice(12, 6, replace=False).tolist()) & set(labels.flatten().tolist())))

    def touch(one: int, other: int) -> bool:
        places = [(labels == part).nonzero().tolist() for part in (one, other)]
        return any(abs(a - c) + abs(b - d) == 1 for a, b in places[0] for c, d in places[1])

    regions: list[set[int]] = []
    for part in parts:
        near = [region for region in regions if any(touch(part, own) for own in region)]
        regions = [region for region in regions if region not in near] + [{part}.union(*near)]
    assert sorted(map(sorted, touching_regions(parts, labels))) == sorted(map(sorted, regions))


def test_regions_of__words_are_each_their_own() -> None:
    assert touching_regions((0, 1, 3), torch.arange(5)) == ((0,), (1,), (3,))
    assert touching_regions((), grid_segments(4, 4, 2)) == ()
