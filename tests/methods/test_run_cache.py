"""Saved runs: encoded once, found again, extended rather than repeated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor

import cocoax
from cocoax import Rise
from cocoax.masking import GridMasks
from cocoax.methods import RemovalMethod
from cocoax.methods.estimate import Estimate
from cocoax.methods.run_cache import RunCheckpoint, _key, cached_run
from cocoax.store import cache_folder, read_safetensors, write_safetensors
from tests.conftest import SmallNet, images
from tests.kinds import SeveralConstants
from tests.tiny import save_bert
from tests.towers import Spaces, Words, two_towers

IMAGE = images(1)[0]
RISE = cocoax.Rise(samples=40, grid=4)


def same(first: Any, second: Any) -> bool:
    targets = [cocoax.representation_similarity()]
    return torch.equal(first.explain(targets)[0].values, second.explain(targets)[0].values)


def test_cached_run__is_what_a_new_run_is_and_costs_nothing_the_second_time(encoder: cocoax.Encoder, net: SmallNet) -> None:
    first = cached_run(encoder, IMAGE, RISE)
    assert same(first, RISE.run(encoder, IMAGE))
    assert cocoax.cache_info().runs == 1
    net.inputs = 0
    again = cached_run(encoder, IMAGE.clone(), RISE)
    assert net.inputs == 0
    assert same(first, again)
    assert len(again) == 40


def test_cached_run__is_extended_by_what_is_missing(encoder: cocoax.Encoder, net: SmallNet) -> None:
    cached_run(encoder, IMAGE, RISE)
    net.inputs = 0
    longer = cocoax.Rise(samples=100, grid=4)
    run = cached_run(encoder, IMAGE, longer)
    assert net.inputs == 60
    assert len(run) == 100
    torch.testing.assert_close(run.representations, longer.run(encoder, IMAGE).representations)
    net.inputs = 0
    assert len(cached_run(encoder, IMAGE, longer)) == 100  # the longer one was kept
    assert net.inputs == 0


def test_cached_run__of_a_longer_one_the_first_samples(encoder: cocoax.Encoder, net: SmallNet) -> None:
    """A result does not depend on what was asked before, unless one says that more is welcome."""
    fresh = RISE.run(encoder, IMAGE)
    cached_run(encoder, IMAGE, cocoax.Rise(samples=64, grid=4))
    net.inputs = 0
    run = cached_run(encoder, IMAGE, RISE)
    assert len(run) == len(run.masks) == 40
    torch.testing.assert_close(
        run.explain(cocoax.representation_similarity()).values, fresh.explain(cocoax.representation_similarity()).values
    )
    assert len(cached_run(encoder, IMAGE, RISE, at_least=True)) == 64
    assert net.inputs == 0
    assert len(cached_run(encoder, IMAGE, cocoax.Rise(samples=64, grid=4))) == 64  # nothing was cut off on disk


def test_cached_run__longer_one_of_another_process_stays(encoder: cocoax.Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    cached_run(encoder, IMAGE, RISE)
    resume = cocoax.Run.resume

    def meanwhile(run: cocoax.Run, *arguments: Any, **options: Any) -> cocoax.Run:
        with monkeypatch.context() as patch:
            patch.setattr(cocoax.Run, "resume", resume)
            cached_run(encoder, IMAGE, replace(RISE, samples=200))
        return resume(run, *arguments, **options)

    monkeypatch.setattr(cocoax.Run, "resume", meanwhile)
    assert len(cached_run(encoder, IMAGE, replace(RISE, samples=60))) == 60
    assert len(cached_run(encoder, IMAGE, RISE, at_least=True)) == 200


@pytest.mark.parametrize(
    "change",
    [
        {"image": images(1, seed=5)[0]},
        {"method": cocoax.Rise(samples=40, grid=5)},
        {"method": cocoax.Rise(samples=40, grid=4, seed=1)},
        {"method": cocoax.Rise(samples=40, grid=4, keep=0.4)},
        {"method": cocoax.Rise(samples=40, grid=4, baseline=cocoax.Mean())},
        {"method": cocoax.KernelShap(samples=60, grid=3)},
        {"encoder": cocoax.Encoder(SmallNet(seed=3).eval())},
        {"encoder": cocoax.Encoder(SmallNet().eval(), layer="act")},
    ],
)
def test_cached_run__another_run_for_another_picture_encoder_or_option(
    change: dict[str, Any], encoder: cocoax.Encoder
) -> None:
    cached_run(encoder, IMAGE, RISE)
    cached_run(change.get("encoder", encoder), change.get("image", IMAGE), change.get("method", RISE))
    assert cocoax.cache_info().runs == 2


def test_cached_run__another_estimator_reads_the_same_run(encoder: cocoax.Encoder, net: SmallNet) -> None:
    efficient = replace(RISE, complements=False)
    cached_run(encoder, IMAGE, efficient)
    net.inputs = 0
    paper = replace(efficient, estimator="paper")
    run = cached_run(encoder, IMAGE, paper)
    assert (net.inputs, cocoax.cache_info().runs) == (0, 1)
    target = cocoax.representation_similarity()
    assert torch.equal(run.explain(target).values, paper.explain(encoder, IMAGE, target).values)


def test_cached_run__baseline_that_is_a_picture_is_part_of_the_key(encoder: cocoax.Encoder) -> None:
    for seed in (1, 2):
        cached_run(encoder, IMAGE, cocoax.Rise(samples=40, grid=4, baseline=images(1, seed=seed)[0]))
    assert cocoax.cache_info().runs == 2


@pytest.mark.parametrize("method", [cocoax.KernelShap(samples=60, grid=3), cocoax.Occlusion(window=4, stride=4)])
def test_cached_run__of_other_methods(method: Any, encoder: cocoax.Encoder, net: SmallNet) -> None:
    first = cached_run(encoder, IMAGE, method)
    net.inputs = 0
    assert same(first, cached_run(encoder, IMAGE, method))
    assert net.inputs == 0


def test_cached_run__tolerance_goes_on_from_what_is_there(encoder: cocoax.Encoder, net: SmallNet) -> None:
    cached_run(encoder, IMAGE, RISE)
    net.inputs = 0
    run = cached_run(encoder, IMAGE, cocoax.Rise(samples=40, grid=4, tolerance=1e-9, max_samples=90))
    assert (len(run), net.inputs) == (90, 50)
    assert "the maximum" in run.stopped


def test_cached_run__explains_once_before_it_goes_on(encoder: cocoax.Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    cached_run(encoder, IMAGE, RISE)
    explained: list[int] = []
    needed = Rise.samples_needed
    monkeypatch.setattr(
        Rise, "samples_needed", lambda self, run, targets: explained.append(len(run)) or needed(self, run, targets)
    )
    cached_run(encoder, IMAGE, cocoax.Rise(samples=40, grid=4, tolerance=1e-9, max_samples=90))
    assert explained == [40, 80, 90]


@pytest.mark.parametrize("samples", [60, 40, 20])
def test_cached_run__whose_masks_cannot_be_drawn_again_gives_way(
    samples: int, encoder: cocoax.Encoder, net: SmallNet
) -> None:
    cached_run(encoder, IMAGE, RISE)
    (kept,) = (cache_folder() / "runs").glob("*.safetensors")
    run = cocoax.Run.load(kept)
    run.masks.bits[0] = 1 - run.masks.bits[0]  # type: ignore[attr-defined]
    run.save(kept)
    method = replace(RISE, samples=samples)
    encoded = []
    for _ in range(2):
        net.inputs = 0
        assert len(cached_run(encoder, IMAGE, method)) == samples
        encoded.append(net.inputs)
    assert encoded[1] == 0
    assert (encoded[0] > 0) == (samples != 40)  # as long as it is, it answers


def test_cached_run__of_words_serves_both_estimators_and_any_grid() -> None:
    network = Words().eval()
    text = cocoax.TextEncoder(network, Spaces(), limit=40, name="words")
    words = " ".join(f"word{number}" for number in range(20))
    cached_run(text, words, cocoax.Rise(samples=200))
    network.inputs = 0
    for method in (cocoax.Rise(samples=200, estimator="paper"), cocoax.Rise(samples=200, grid=5)):
        found = cached_run(text, words, method)
        assert network.inputs == 1  # the probe
        assert same(found, method.run(text, words))
        network.inputs = 0


def test_cached_run__damaged_file_is_made_again(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    first = cached_run(encoder, IMAGE, RISE)
    (file,) = (tmp_path / "cache" / "runs").glob("*.safetensors")
    file.write_bytes(file.read_bytes()[:200])
    with pytest.warns(UserWarning, match=rf"{file.name}.* It was put aside as {file.name}\.damaged"):
        assert same(first, cached_run(encoder, IMAGE, RISE))


@contextmanager
def interrupted_after(
    inputs: int, net: SmallNet, monkeypatch: pytest.MonkeyPatch
) -> Iterator[pytest.ExceptionInfo[cocoax.Interrupted]]:
    """Ctrl-C once the network has seen so many inputs; what is done within must end by it."""
    encode = cocoax.Encoder.encode

    def stop(self: cocoax.Encoder, prepared: Any) -> Any:
        if net.inputs >= inputs:
            raise KeyboardInterrupt
        return encode(self, prepared)

    with monkeypatch.context() as patch:
        patch.setattr(cocoax.Encoder, "encode", stop)
        with pytest.raises(cocoax.Interrupted) as stopped:
            yield stopped


@pytest.mark.parametrize(
    "method",
    [
        cocoax.Rise(samples=40, grid=4, batch_size=4),
        cocoax.Rise(samples=20, grid=4, batch_size=4, tolerance=1e-9, max_samples=90),
        cocoax.KernelShap(samples=60, grid=3, batch_size=4),
        cocoax.Occlusion(window=4, stride=4, batch_size=4),
    ],
)
@pytest.mark.parametrize("inputs", [3, 14, 30])
def test_cached_run__interrupted_and_gone_on_is_what_an_undisturbed_one_is(
    method: Any, inputs: int, encoder: cocoax.Encoder, net: SmallNet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    undisturbed = cached_run(encoder, IMAGE, method, folder=tmp_path / "undisturbed")
    net.inputs = 0
    if inputs < 2 + len(undisturbed):
        with interrupted_after(inputs, net, monkeypatch):
            cached_run(encoder, IMAGE, method, folder=tmp_path / "interrupted")
    done = net.inputs - 2
    net.inputs = 0
    again = cached_run(encoder, IMAGE, method, folder=tmp_path / "interrupted")
    assert torch.equal(again.representations, undisturbed.representations)
    assert again.stopped == undisturbed.stopped
    assert net.inputs == 2 + len(undisturbed) - (done if inputs < 2 + len(undisturbed) else 0)
    files = [list((tmp_path / name).glob("*.safetensors")) for name in ("undisturbed", "interrupted")]
    assert [len(each) for each in files] == [1, 1]  # what was unfinished is gone
    assert files[0][0].read_bytes() == files[1][0].read_bytes()


def test_cached_run__unnamed_callable_is_not_kept() -> None:
    encoder = cocoax.Encoder(lambda batch: batch.mean((2, 3)))
    assert len(cached_run(encoder, IMAGE, RISE)) == 40
    assert cocoax.cache_info().runs == 0


def test_cached_run__folder_of_ones_own(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    cached_run(encoder, IMAGE, RISE, folder=tmp_path / "mine")
    assert len(list((tmp_path / "mine").glob("*.safetensors"))) == 1
    assert cocoax.cache_info().runs == 0


def test_cached_run__folder_that_cannot_be_written_is_a_warning(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(UserWarning, match="cannot be written"):
        assert len(cached_run(encoder, IMAGE, RISE, folder=tmp_path / "file")) == 40


def test_clear_cache__deletes_runs(encoder: cocoax.Encoder) -> None:
    cached_run(encoder, IMAGE, RISE)
    assert cocoax.clear_cache().runs == 1
    assert cocoax.cache_info().runs == 0


def test_cached_run__of_a_text_when_the_other_tower_has_changed() -> None:
    encoder, method = two_towers(), cocoax.Rise(samples=20)
    encoder.text.inputs.tokenize = Spaces()  # type: ignore[attr-defined]
    cached_run(encoder.text, "a red dog", method)
    assert isinstance(encoder.module, SmallNet)
    with torch.no_grad():
        next(encoder.module.parameters()).mul_(2)
    run = cached_run(encoder.text, "a red dog", method)
    run.explain(cocoax.corpus_similarity(encoder.text.reference(["a dog"], cache=False)))
    assert cocoax.cache_info().runs == 1


# --- what a run is found by -----------------------------------------------------------------------------------------------


def test_cached_run__words_and_sentences_are_two_runs(tmp_path: Path) -> None:
    encoder: Any = cocoax.load(f"st:{save_bert(tmp_path / 'bert')}")
    text = "The violinist parked. A big red dog."
    method = cocoax.Rise(samples=20)
    runs = [cached_run(by, text, method) for by in (encoder, encoder.by("sentences"), encoder.by("tokens"), encoder)]
    assert cocoax.cache_info().runs == 3
    assert [run.explicand.shape for run in runs] == [(9,), (2,), (11,), (9,)]
    assert torch.equal(runs[0].representations, runs[3].representations)


@pytest.mark.parametrize("option", Rise.length_options + Rise.estimator_options)
def test_cached_run__how_long_it_is_and_how_it_is_read_is_not_in_the_key(option: str, encoder: cocoax.Encoder) -> None:
    value = {"samples": 60, "tolerance": 0.5, "max_samples": 30_000, "batch_size": 7, "estimator": "paper"}[option]
    prepared = encoder.explicand(IMAGE)
    method = replace(RISE, baseline=cocoax.Blur(), complements=False)
    assert _key(encoder, prepared, method) == _key(encoder, prepared, replace(method, **{option: value}))


@pytest.mark.parametrize(
    "option", [field.name for field in fields(Rise) if field.name not in Rise.length_options + Rise.estimator_options]
)
def test_cached_run__all_else_is_in_the_key(option: str, encoder: cocoax.Encoder) -> None:
    value = {"baseline": cocoax.Mean(), "grid": 5, "keep": 0.4, "seed": 1, "complements": False}[option]
    prepared = encoder.explicand(IMAGE)
    method = replace(RISE, baseline=cocoax.Blur())
    assert _key(encoder, prepared, method) != _key(encoder, prepared, replace(method, **{option: value}))


@dataclass(frozen=True)
class Longer(RemovalMethod):
    """A method of a user's own that can be lengthened, with an option that only says how it is read."""

    length_options = ("windows",)
    estimator_options = ("factor",)
    windows: int = 4
    factor: float = 1.0

    def draw(self, shape: tuple[int, ...], count: int | None = None) -> GridMasks:
        return GridMasks.draw(*shape, 2, 0.5, self.windows if count is None else count, 0)

    def restore(self, shape: tuple[int, ...], tensors: dict[str, Tensor]) -> GridMasks:
        return self.draw(shape, len(tensors["bits"]))

    def estimate(self, masks: Any, scores: Tensor, ends: Tensor) -> Estimate:
        return Estimate(self.factor * masks.weighted_sum(scores.double()))


def test_cached_run__method_of_ones_own_is_as_long_as_it_asks_for(encoder: cocoax.Encoder, net: SmallNet) -> None:
    cached_run(encoder, IMAGE, Longer(windows=9))
    net.inputs = 0
    short = cached_run(encoder, IMAGE, Longer(windows=4))
    assert (len(short), net.inputs) == (4, 0)
    assert torch.equal(short.representations, Longer(windows=4).run(encoder, IMAGE).representations)
    assert len(cached_run(encoder, IMAGE, Longer(windows=4), at_least=True)) == 9


def test_cached_run__method_of_ones_own_is_lengthened(encoder: cocoax.Encoder, net: SmallNet) -> None:
    cached_run(encoder, IMAGE, Longer())
    net.inputs = 0
    run = cached_run(encoder, IMAGE, Longer(windows=9, factor=2.0))
    assert (len(run), net.inputs, cocoax.cache_info().runs) == (9, 5, 1)
    assert torch.equal(run.representations, Longer(windows=9).run(encoder, IMAGE).representations)
    target = cocoax.representation_similarity()
    torch.testing.assert_close(run.explain(target).values, 2 * Longer(windows=9).explain(encoder, IMAGE, target).values)


def test_cached_run__baselines_of_ones_own_are_known_in_this_process(encoder: cocoax.Encoder) -> None:
    """Not by where they lie in memory, where the next one may lie as well."""
    first = SeveralConstants(0.0)
    runs = [
        cached_run(encoder, IMAGE, replace(RISE, baseline=baseline)) for baseline in (first, SeveralConstants(1.0), first)
    ]
    assert cocoax.cache_info().runs == 2
    assert same(runs[0], runs[2])
    assert not same(runs[0], runs[1])


def test_cached_run__all_subsets_where_they_are_few() -> None:
    """Runs of drawn subsets and of all of them are kept in one place, and neither is taken for the other."""
    seen: list[int] = []
    with torch.random.fork_rng():
        network = torch.nn.Linear(6, 5)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    network.register_forward_hook(lambda _module, inputs, _output: seen.append(len(inputs[0])))
    table = cocoax.TabularEncoder(network.eval(), columns=list("abcdef"), background=torch.zeros(1, 6).numpy())
    row = torch.arange(6).float().numpy()
    drawn, every = cocoax.Rise(samples=40), cocoax.Rise(samples=64)
    fresh_drawn, fresh_every = drawn.run(table, row), every.run(table, row)
    assert same(cached_run(table, row, drawn), fresh_drawn)
    complete = cached_run(table, row, every)  # what was drawn is no part of it
    assert len(complete) == 64
    assert same(complete, fresh_every)
    seen.clear()
    assert same(cached_run(table, row, cocoax.Rise(samples=1000)), fresh_every)
    again = cached_run(table, row, drawn)  # looked up among all subsets
    assert len(again) == len(again.masks) == 40
    torch.testing.assert_close(
        again.explain(cocoax.representation_similarity()).values,
        fresh_drawn.explain(cocoax.representation_similarity()).values,
    )
    assert sum(seen) == 2  # probes


def test_cached_run__what_an_interruption_left_of_all_subsets_is_no_draw() -> None:
    table = cocoax.TabularEncoder(
        lambda rows: torch.tanh(rows) + 0.3, columns=list("abcdef"), background=torch.zeros(1, 6).numpy()
    )
    row = torch.arange(6).float().numpy()
    part = cocoax.Rise(samples=64).run(table, row).first(50)
    drawn, lacking = cocoax.Rise(samples=40).resized(part, at_least=False)
    assert (len(drawn), lacking) == (0, 40)
    rest, lacking = cocoax.Rise(samples=64).resized(part, at_least=False)
    assert (len(rest), lacking) == (50, 14)


# --- what a killed run leaves ---------------------------------------------------------------------------------------------


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was encoded is written after every batch."""
    monkeypatch.setattr("cocoax.methods.run._MAX_LOST_SECONDS", 0.0)
    monkeypatch.setattr("cocoax.methods.run.time.monotonic", lambda: 0.0)


def kill_after(inputs: int, encoder: cocoax.Encoder, monkeypatch: pytest.MonkeyPatch, method: Any) -> None:
    """End a run once the network has seen so many inputs, as nothing in it expects."""
    encode, net = cocoax.Encoder.encode, encoder.module
    assert isinstance(net, SmallNet)

    def stop(self: cocoax.Encoder, prepared: Any) -> Any:
        if net.inputs >= inputs:
            raise SystemExit
        return encode(self, prepared)

    with monkeypatch.context() as patch:
        patch.setattr(cocoax.Encoder, "encode", stop)
        with pytest.raises(SystemExit):
            cached_run(encoder, IMAGE, method)


def test_cached_run__killed_goes_on_from_the_last_note(
    often: None, encoder: cocoax.Encoder, net: SmallNet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    method = cocoax.Rise(samples=40, grid=4, batch_size=8)
    encoder.represent(images(2))  # the first batch is checked for being deterministic
    net.inputs = 0
    kill_after(20, encoder, monkeypatch, method)
    (unfinished,) = (tmp_path / "cache" / "runs").iterdir()
    assert unfinished.name.endswith(".unfinished.safetensors")
    assert cocoax.cache_info().contents[0].encoder == "SmallNet"
    net.inputs = 0
    run = cached_run(encoder, IMAGE, method)
    assert net.inputs == 2 + 40 - 24
    assert torch.equal(run.representations, method.run(encoder, IMAGE).representations)
    assert [file.name for file in (tmp_path / "cache" / "runs").glob("*.safetensors")] == [
        unfinished.name.replace(".unfinished", "")
    ]


def test_cached_run__killed_while_it_was_extended(
    often: None, encoder: cocoax.Encoder, net: SmallNet, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached_run(encoder, IMAGE, cocoax.Rise(samples=16, grid=4, batch_size=8))
    net.inputs = 0
    method = cocoax.Rise(samples=40, grid=4, batch_size=8)
    kill_after(8, encoder, monkeypatch, method)
    net.inputs = 0
    run = cached_run(encoder, IMAGE, method)
    assert net.inputs == 40 - 24
    assert torch.equal(run.representations, method.run(encoder, IMAGE).representations)


def test_cached_run__what_a_longer_one_left_serves_a_shorter_one_and_stays(
    often: None, encoder: cocoax.Encoder, net: SmallNet, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder.represent(images(2))
    net.inputs = 0
    kill_after(34, encoder, monkeypatch, cocoax.Rise(samples=80, grid=4, batch_size=8))
    net.inputs = 0
    assert len(cached_run(encoder, IMAGE, cocoax.Rise(samples=16, grid=4, batch_size=8))) == 16
    assert net.inputs == 2
    net.inputs = 0
    assert len(cached_run(encoder, IMAGE, cocoax.Rise(samples=80, grid=4, batch_size=8))) == 80
    assert net.inputs == 80 - 32


def test_cached_run__what_other_masks_left_is_not_used(
    often: None, encoder: cocoax.Encoder, net: SmallNet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As where a longer run goes through all subsets in turn, and a shorter one draws them."""
    method = cocoax.Rise(samples=40, grid=4, batch_size=8)
    encoder.represent(images(2))  # the first batch is checked for being deterministic
    net.inputs = 0
    kill_after(20, encoder, monkeypatch, method)
    (unfinished,) = (tmp_path / "cache" / "runs").iterdir()
    tensors, _ = read_safetensors(unfinished, "unfinished run")
    tensors["mask_bits"][10] = 1 - tensors["mask_bits"][10]
    write_safetensors(unfinished, tensors, "unfinished run", {"encoder": "SmallNet"})
    net.inputs = 0
    run = cached_run(encoder, IMAGE, method)
    assert net.inputs == 2 + 40 - 10  # the ten before are the same
    torch.testing.assert_close(run.representations, method.run(encoder, IMAGE).representations)


@dataclass(frozen=True)
class Weighed(cocoax.Occlusion):
    """A method of a user's own with an option that no file holds."""

    weigh: Any = len


def test_cached_run__an_option_that_no_file_holds(encoder: cocoax.Encoder) -> None:
    with pytest.warns(
        UserWarning, match=r"The cache of runs cannot be written \(The option 'weigh' of .*Weighed holds a builtin_f"
    ):
        run = cached_run(encoder, IMAGE, Weighed())
    assert same(run, cocoax.Occlusion().run(encoder, IMAGE))
    assert cocoax.cache_info().runs == 0


def test_cached_run__notes_are_taken_now_and_then(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    """Not for a run that is over in a moment, and not where there is no place for them."""
    written = RunCheckpoint(tmp_path / "a.safetensors", "name")
    run = RISE.run(encoder, IMAGE)
    written.note(run.masks, run.representations)
    assert not written.path.exists()
    written.note(run.masks, run.representations[:8], at_once=True)
    assert torch.equal(cast(Tensor, written.earlier(run.masks)), run.representations[:8])
    (tmp_path / "file").touch()
    nowhere = RunCheckpoint(tmp_path / "file" / "a.safetensors", "name")
    nowhere.note(run.masks, run.representations, at_once=True)  # a warning comes at the end of the run
    nowhere.forget(40)
