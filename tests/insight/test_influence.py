"""Training examples without labels: Captum's results against gradients and Hessians written out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cocoax
from cocoax.insight.important_examples import _last_layers, _Losses
from cocoax.paper.networks.resnet import ResNet
from tests.conftest import SmallNet, images
from tests.insight.games import table

EVERYTHING = 8  # members; the explicand follows


def setting() -> tuple[cocoax.Encoder, Tensor, Tensor]:
    return cocoax.Encoder(SmallNet().eval(), name="small"), images(1, seed=3)[0], images(EVERYTHING, seed=5)


def slow_gradients(encoder: cocoax.Encoder, weights: dict[str, Tensor], inputs: Tensor) -> Tensor:
    """Return the gradient of every input's loss by all parameters, ``[n, parameters]``, one input after the other."""
    net = SmallNet().eval()
    net.load_state_dict(weights)
    losses = _Losses(encoder, net, [encoder.explicand(each) for each in inputs], (None, 0.2, 0))
    losses.negatives = list(range(EVERYTHING))
    rows = []
    for number in range(len(inputs)):
        z = torch.nn.functional.normalize(net(inputs[number][None]), dim=1)[0]
        view = torch.nn.functional.normalize(net(losses.views[number][None]), dim=1)[0]
        others = torch.nn.functional.normalize(net(inputs[:EVERYTHING]), dim=1).detach()
        apart = [z @ other for index, other in enumerate(others) if index != number]
        logits = torch.stack([z @ view, *apart]) / 0.2
        loss = torch.logsumexp(logits, 0) - logits[0]
        rows.append(torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(net.parameters()))]))
    return torch.stack(rows)


def test_tracin__is_a_sum_of_products_of_gradients() -> None:
    encoder, picture, members = setting()
    checkpoints = [SmallNet(seed=seed).state_dict() for seed in (0, 1, 2)]
    rates = [0.5, 0.2, 0.1]
    found = cocoax.examples(encoder, picture, members, "tracin", checkpoints=checkpoints, rates=rates)
    slow = torch.zeros(EVERYTHING)
    for rate, weights in zip(rates, checkpoints, strict=True):
        gradients = slow_gradients(encoder, weights, torch.cat([members, picture[None]]))
        slow += rate * gradients[:-1] @ gradients[-1]
    torch.testing.assert_close(found.values.float(), slow, rtol=1e-3, atol=1e-4)


def test_tracin__examples_matter_more_to_themselves_than_to_others() -> None:
    """On average only: every input has a view of its own, and gradients have different lengths."""
    encoder, _, members = setting()
    weights = encoder.module.state_dict()  # type: ignore[attr-defined]
    rows = [cocoax.examples(encoder, member, members, "tracin", checkpoints=[weights]).values for member in members]
    values = torch.stack(rows)
    others = values[~torch.eye(len(members), dtype=torch.bool)]
    assert float(values.diagonal().mean()) > float(others.mean() + 3 * others.std() / len(others) ** 0.5)


def test_losses__an_input_is_not_told_from_a_copy_of_itself() -> None:
    encoder, _, members = setting()
    inputs = torch.cat([members, members[3:4].clone()])
    losses = _Losses(encoder, SmallNet().eval(), [encoder.explicand(each) for each in inputs], (None, 0.2, 0))
    losses.negatives = list(range(EVERYTHING))
    losses.views[EVERYTHING] = losses.views[3]
    own, copied = losses(torch.tensor([3, EVERYTHING])).tolist()
    assert copied == pytest.approx(own, rel=1e-5)


def test_influence__is_a_product_with_the_inverse_hessian() -> None:
    encoder, picture, members = setting()
    found = cocoax.examples(encoder, picture, members, "influence", layers=["fc"], damping=0.5)

    def loss_of(flat: Tensor, number: int) -> Tensor:
        weights = {"fc.weight": flat[: 24 * 8].view(8, 24), "fc.bias": flat[24 * 8 :]}

        def represent(batch: Tensor) -> Tensor:
            return torch.nn.functional.normalize(torch.func.functional_call(net, weights, (batch,)), dim=1)

        z, view = represent(inputs[number][None])[0], represent(views[number][None])[0]
        others = torch.nn.functional.normalize(net(inputs[:EVERYTHING]), dim=1).detach()
        keep = [index for index in range(EVERYTHING) if index != number]
        logits = torch.cat([(z @ view)[None], others[keep] @ z]) / 0.2
        return torch.logsumexp(logits, 0) - logits[0]

    net, inputs = SmallNet().eval(), torch.cat([members, picture[None]])
    views = _Losses(encoder, net, [encoder.explicand(each) for each in inputs], (None, 0.2, 0)).views
    flat = torch.cat([net.fc.weight.flatten(), net.fc.bias]).detach()
    hessian = sum(
        torch.autograd.functional.hessian(lambda own, n=number: loss_of(own, n), flat) for number in range(EVERYTHING)
    )
    gradients = torch.stack([torch.func.grad(loss_of)(flat, number) for number in range(len(inputs))])
    values, vectors = torch.linalg.eigh(hessian + 0.5 * torch.eye(len(flat)))  # type: ignore[arg-type]
    kept = values > 1e-6
    inverse = vectors[:, kept] @ torch.diag(1 / values[kept]) @ vectors[:, kept].T
    slow = (gradients[:-1] @ inverse @ gradients[-1]).detach()
    assert np.corrcoef(found.values.numpy(), slow.numpy())[0, 1] > 0.999
    torch.testing.assert_close(found.values.float(), slow, rtol=0.02, atol=2e-3)


def test_influence__is_what_retraining_without_a_member_does_to_the_loss() -> None:
    """Ridge regression, trained to its optimum: the loss on an input, retrained without each member, minus that with all."""
    random = np.random.default_rng(0)
    rows, truth = random.normal(size=(41, 5)), random.normal(size=5)
    answers = rows @ truth + random.normal(0, 0.5, 41)
    known = {row.astype(np.float32).tobytes(): answer for row, answer in zip(rows, answers, strict=True)}

    def trained(chosen: np.ndarray) -> np.ndarray:
        weights: np.ndarray = np.linalg.solve(
            rows[chosen].T @ rows[chosen] + 1e-3 * np.eye(5), rows[chosen].T @ answers[chosen]
        )
        return weights

    def squared(own: cocoax.Encoder, inputs: Sequence[Tensor], views: Sequence[Tensor]) -> Tensor:
        wanted = torch.tensor([known[each.numpy().tobytes()] for each in inputs]).float()
        return (own(own.collate(inputs))[:, 0] - wanted).square()

    members = np.arange(40)
    with torch.random.fork_rng():
        layer = nn.Linear(5, 1, bias=False)
    layer.weight.data = torch.tensor(trained(members)).float()[None]
    encoder = cocoax.TabularEncoder(nn.Sequential(layer), columns=list("abcde"), background=rows, name="regression")
    found = cocoax.examples(encoder, rows[40], rows[:40], "influence", loss=squared, layers=["0"], damping=2e-3)
    losses = [(rows[40] @ trained(members[members != out]) - answers[40]) ** 2 for out in members]
    retrained = np.array(losses) - (rows[40] @ trained(members) - answers[40]) ** 2
    assert np.corrcoef(found.values.numpy(), retrained)[0, 1] > 0.98
    assert int(found.values.abs().argmax()) == int(np.abs(retrained).argmax())
    np.testing.assert_allclose(found.values.numpy(), retrained, atol=0.25 * np.abs(retrained).max())


def test_loss__of_ones_own() -> None:
    encoder, picture, members = setting()

    def length(own: cocoax.Encoder, inputs: list[Tensor], views: list[Tensor]) -> Tensor:
        return own(torch.stack(inputs)).square().sum(1)

    found = cocoax.examples(
        encoder,
        picture,
        members,
        "tracin",
        checkpoints=[encoder.module.state_dict()],
        loss=length,
        layers=["fc"],  # type: ignore[attr-defined]
    )
    net = SmallNet().eval()
    gradients = []
    for each in torch.cat([members, picture[None]]):
        parts = torch.autograd.grad(net(each[None]).square().sum(), [net.fc.weight, net.fc.bias])
        gradients.append(torch.cat([part.flatten() for part in parts]))
    slow = torch.stack(gradients[:-1]) @ gradients[-1]
    torch.testing.assert_close(found.values.float(), slow, rtol=1e-3, atol=1e-3)


def test_checkpoints__files_and_heads_that_are_left_out(tmp_path: Path) -> None:
    encoder, picture, members = setting()
    weights = SmallNet(seed=1).state_dict()
    torch.save({**weights, "head.weight": torch.ones(3, 8)}, tmp_path / "weights.pt")
    from_file = cocoax.examples(encoder, picture, members, "tracin", checkpoints=tmp_path / "weights.pt")
    from_dict = cocoax.examples(encoder, picture, members, "tracin", checkpoints=[weights])
    torch.testing.assert_close(from_file.values, from_dict.values)


def padded(blocks: int, seed: int = 0) -> ResNet:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return ResNet((blocks, blocks), (4, 8), (3, 1), padded=True).eval()


def test_checkpoints__names_of_others_and_more_blocks() -> None:
    encoder, picture, members = cocoax.Encoder(padded(1), name="resnet"), images(1, seed=3)[0], images(4, seed=5)
    own = padded(1, seed=1).state_dict()
    others = {
        f"module.{name.replace('stages.0', 'layer1').replace('stages.1', 'layer2')}": tensor
        for name, tensor in own.items()
        if not name.endswith("num_batches_tracked")
    }
    others["module.linear.weight"] = torch.ones(10, 8)
    by_own, by_others = (
        cocoax.examples(encoder, picture, members, "tracin", checkpoints=[weights]) for weights in (own, others)
    )
    assert float(by_own.values.abs().sum()) > 0
    assert torch.equal(by_own.values, by_others.values)
    longer = padded(3).state_dict()  # has all that the encoder has, in the same shapes
    with pytest.raises(ValueError, match=r"another architecture than the encoder: it has 'layer1\.1\.conv1\.weight'"):
        cocoax.examples(encoder, picture, members, "tracin", checkpoints=[longer])


def test_checkpoints__none_or_of_another_architecture(tmp_path: Path) -> None:
    encoder, picture, members = setting()
    with pytest.raises(ValueError, match=r"TracIn needs checkpoints of the training: .* There are none; without any, method"):
        cocoax.examples(encoder, picture, members, "tracin")
    other = SmallNet(dimension=5).state_dict()
    with pytest.raises(
        ValueError, match=r"Checkpoint 1 is of another architecture than the encoder: 'fc.bias' has shape \[5\]"
    ):
        cocoax.examples(encoder, picture, members, "tracin", checkpoints=[SmallNet().state_dict(), other])
    with pytest.raises(ValueError, match=r"'act.weight' has shape none|'conv.bias' has shape none"):
        cocoax.examples(encoder, picture, members, "tracin", checkpoints=[{"weight": torch.ones(2, 2)}])
    with pytest.raises(FileNotFoundError, match="No file at"):
        cocoax.examples(encoder, picture, members, "tracin", checkpoints=[tmp_path / "none.pt"])
    with pytest.raises(ValueError, match="There are 2 rates for 1 checkpoints"):
        cocoax.examples(encoder, picture, members, "tracin", checkpoints=[SmallNet().state_dict()], rates=[1, 2])


def test_layers__mistakes() -> None:
    encoder, picture, members = setting()
    with pytest.raises(ValueError, match="'small' has no layer 'last'"):
        cocoax.examples(encoder, picture, members, "influence", layers=["last"])
    plain = cocoax.Encoder(lambda batch: batch.flatten(1)[:, :4], name="plain")
    with pytest.raises(ValueError, match="'plain' has no parameters that could have been trained"):
        cocoax.examples(plain, picture, members, "influence")
    with torch.random.fork_rng():
        large = cocoax.Encoder(nn.Sequential(nn.Flatten(), nn.Linear(768, 8)), name="large")
    with pytest.raises(ValueError, match="have 6152 parameters, and the Hessian of more than 5000 takes too long"):
        cocoax.examples(large, picture, members, "influence")
    assert _last_layers(SmallNet()) == ["fc", "conv"]
    assert _last_layers(SmallNet(), most=210) == ["fc"]


def test_network__is_left_as_it_was() -> None:
    encoder, row, others, _ = table()
    before = {name: tensor.clone() for name, tensor in encoder.module.state_dict().items()}  # type: ignore[attr-defined]
    cocoax.examples(encoder, row, others, "tracin", checkpoints=[{name: 2 * value for name, value in before.items()}])
    for name, tensor in encoder.module.state_dict().items():  # type: ignore[attr-defined]
        assert torch.equal(tensor, before[name])
