"""What is allowed but may not be what was meant: said once where it should be, and silent where all is well."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import cocoax
from cocoax.cautions import Caution, caution, forget_cautions
from tests.conftest import SmallNet
from tests.tiny import bert_tokenizer, save_bert

BLACK = cocoax.Constant(0.0)
PREPROCESS = cocoax.ImagePreprocess(resize=18, crop=16)


@pytest.fixture(autouse=True)
def nothing_said_yet() -> Iterator[None]:
    forget_cautions()
    with warnings.catch_warnings():
        warnings.simplefilter("error", Caution)
        yield
    forget_cautions()


def picture(width: int = 40, height: int = 40) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8))


def encoder(preprocess: cocoax.ImagePreprocess | None = PREPROCESS) -> cocoax.Encoder:
    return cocoax.Encoder(SmallNet().eval(), preprocess, name="small")


def reference(rows: Tensor, name: str) -> cocoax.Reference:
    return cocoax.Reference.from_representations(rows, name=name)


def test_caution__is_said_once_for_each_thing() -> None:
    for _ in range(2):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for about in ("this", "that", "this"):
                caution("check", about, f"Look at {about}.")
        messages = [str(warning.message) for warning in said]
        assert messages == ["Look at this.", "Look at that."]
        assert said[0].category is Caution
        forget_cautions()


def test_removal__that_removes_almost_nothing() -> None:
    flat = Image.new("RGB", (40, 40), (200, 30, 90))
    hardly = cocoax.Fixed(encoder().explicand(flat).tensor + 1e-3)
    message = (
        r"Removing all of the input by Fixed changes its representation by 0\.\d%, so there is hardly anything to explain"
    )
    with pytest.warns(Caution, match=message):
        cocoax.Rise(samples=20, baseline=hardly).run(encoder(), flat)
    cocoax.Rise(samples=20, baseline=hardly).run(encoder(), flat)  # it was said


def test_removal__that_removes_nothing() -> None:
    flat = Image.new("RGB", (40, 40), (200, 30, 90))  # a blur of it is the same picture
    message = r"Nothing is removed: what Blur puts in place of the input is the input itself.*Try another baseline="
    with pytest.warns(Caution, match=message):
        cocoax.Rise(samples=20).run(encoder(), flat)
    cocoax.Rise(samples=20).run(encoder(), flat)  # it was said
    with pytest.warns(Caution, match=message):  # of another picture it was not
        cocoax.Rise(samples=20).run(encoder(), Image.new("RGB", (40, 40), (20, 30, 90)))
    with pytest.warns(Caution, match=r"Nothing is removed: what Fixed puts in place of the input is the input itself"):
        cocoax.Rise(samples=20, baseline=picture()).run(encoder(), picture())


def test_removal__that_removes_is_silent() -> None:
    cocoax.Rise(samples=20).run(encoder(), picture())
    cocoax.Rise(samples=20, baseline=BLACK).run(encoder(), Image.new("RGB", (40, 40), (200, 30, 90)))


def test_overlap__of_corpus_and_foil() -> None:
    rows = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    corpus, foil = reference(rows[:10], "cats"), reference(rows[8:], "others")
    with pytest.warns(Caution, match=r"^2 of the 10 distinct samples of 'cats' are in 'others' too, where they cancel out"):
        cocoax.contrastive_corpus_similarity(corpus, foil)
    cocoax.contrastive_corpus_similarity(corpus, foil)  # it was said
    forget_cautions()
    cocoax.contrastive_corpus_similarity(corpus, reference(rows[10:], "others"))
    cocoax.contrastive_corpus_similarity(corpus, reference(rows[9:], "others"))  # a tenth of a corpus may be in a foil
    means = cocoax.Reference.from_representations(rows, name="means", keep_samples=False)
    cocoax.contrastive_corpus_similarity(corpus, means)  # which samples it has is not known


def test_unknown__words_of_a_reference(tmp_path: Path) -> None:
    text = cocoax.load(f"hf:{save_bert(tmp_path)}")
    with pytest.warns(Caution, match=r"knows no word of 'ψ ω': all such texts are the same to it\. Write other words\."):
        text.reference(["ψ ω", "ω", "ψ"], cache=False)  # said of the first
    forget_cautions()
    text.reference(["the cat", "a dog"], cache=False)
    text.explicand("the cat")
    with pytest.warns(Caution, match=r"does not know 'ψ' in 'the ψ': all unknown words are the same to it"):
        text.reference(["the cat", "the ψ", "the ω"], cache=False)  # said of the first, not of each of a long list


def test_unknown__is_not_a_token_with_another_meaning() -> None:
    from cocoax.inputs.text import Tokenizer

    tokenizer = bert_tokenizer()
    assert Tokenizer(tokenizer).unknown == tokenizer.unk_token_id
    tokenizer.eos_token = tokenizer.unk_token  # as CLIP has it
    assert Tokenizer(tokenizer).unknown is None


def test_crop__that_cuts_off_most_of_a_photo() -> None:
    with pytest.warns(Caution, match=r"'small' sees 26% of the picture: .* cuts off the rest\. encoder\.whole"):
        encoder().cropped().explicand(picture(120, 40))
    forget_cautions()
    encoder().cropped().explicand(picture(60, 40))


def test_preprocess__is_missed_where_photos_go_in() -> None:
    with pytest.warns(Caution, match=r"'small' has no preprocess=, so that pictures go in with the size they have"):
        encoder(None).represent([picture()])
    forget_cautions()
    encoder(None).represent(torch.zeros(2, 3, 16, 16))
    encoder().represent([picture()])


def test_range__of_a_tensor_of_pixels() -> None:
    pixels = torch.randint(0, 256, (3, 16, 16), generator=torch.Generator().manual_seed(0)).float()
    with pytest.warns(Caution, match=r"A tensor for 'small' has values up to 255, as pixels that are not preprocessed have"):
        encoder().represent(pixels)
    forget_cautions()
    encoder().represent(pixels / 255)
    encoder().represent(pixels - 120)  # networks of old take pixels minus their mean


def test_not_normalised__a_picture_as_a_tensor_of_another_size() -> None:
    normalising = cocoax.ImagePreprocess(18, 16, (0.5, 0.4, 0.3), (0.2, 0.2, 0.2))
    pixels = torch.rand(3, 40, 30, generator=torch.Generator().manual_seed(0))
    said = r"A tensor \[3, 40, 30\] with values from 0 to 1 is taken as prepared for 'small'.*tensor\.permute\(1, 2, 0\)"
    for given in (pixels, pixels.numpy()):
        forget_cautions()
        with pytest.warns(Caution, match=said):
            encoder(normalising).explicand(given)
    forget_cautions()
    with pytest.warns(Caution, match="neither resized nor normalised"):
        encoder(cocoax.ImagePreprocess(18, None, (0.5,) * 3, (0.2,) * 3)).represent(pixels)


def test_not_normalised__is_silent_where_tensors_are_prepared_or_nothing_is_normalised() -> None:
    normalising = cocoax.ImagePreprocess(18, 16, (0.5, 0.4, 0.3), (0.2, 0.2, 0.2))
    pixels = torch.rand(3, 40, 30, generator=torch.Generator().manual_seed(0))
    whole = encoder(normalising)
    seen = whole.explicand(picture(60, 40)).tensor
    assert seen.shape != (3, 16, 16)
    whole.explicand(seen)
    whole.explicand(pixels.permute(1, 2, 0))
    whole.explicand(whole.prepare(picture()))
    whole.represent(pixels[None, :, :16, :16])  # the size that it prepares
    whole.represent(torch.zeros(3, 40, 30))  # the colour that is the mean
    whole.represent((pixels - 0.5) / 0.2)
    encoder().represent(pixels)  # neither mean nor std
    encoder(cocoax.ImagePreprocess(None, None, (0.5,) * 3, (0.2,) * 3)).represent(pixels)  # of any size
    encoder(None).represent(pixels)


@pytest.mark.parametrize("name", ["GuidedBackprop", "Deconvolution"])
def test_captum__what_changes_relus_says_when_there_are_none(name: str) -> None:
    class Functional(SmallNet):
        def forward(self, images: Tensor) -> Tensor:
            return torch.relu(super().forward(images))

    relus = cocoax.Encoder(nn.Sequential(SmallNet(), nn.ReLU()).eval(), PREPROCESS, name="modules")
    none = cocoax.Encoder(Functional().eval(), PREPROCESS, name="functions")
    target = cocoax.representation_similarity("dot")
    cocoax.Captum(name, baseline=BLACK).explain(relus, picture(), target)
    with pytest.warns(Caution, match=f"Captum's {name} changes modules nn.ReLU, and 'functions' has none"):
        cocoax.Captum(name, baseline=BLACK).explain(none, picture(), target)


def test_captum__lime_of_zeros_says_which_penalty() -> None:
    from captum._utils.models.linear_model import SkLearnLasso

    target = cocoax.representation_similarity() / 100
    with pytest.warns(Caution, match=r"Captum's Lime gave nothing but zeros\. Its default penalty is too large"):
        cocoax.Captum("Lime", n_samples=60, grid=3, baseline=BLACK).explain(encoder(), picture(), target)
    forget_cautions()
    small = cocoax.Captum("Lime", n_samples=60, grid=3, baseline=BLACK, interpretable_model=SkLearnLasso(alpha=1e-5))
    assert bool(small.explain(encoder(), picture(), target).values.any())


def test_caution__points_at_the_line_that_called_cocoax() -> None:
    flat = Image.new("RGB", (40, 40), (200, 30, 90))
    with pytest.warns(Caution, match="Nothing is removed") as said:
        cocoax.Rise(samples=20).run(encoder(), flat)
    assert [(Path(warning.filename).name, warning.filename == __file__) for warning in said] == [("test_cautions.py", True)]
    forget_cautions()
    with pytest.warns(Caution) as said:  # through functions with decorators too
        cocoax.ask(encoder(), flat, cocoax.Question())
    assert {warning.filename for warning in said} == {__file__}


class Steady(nn.Module):
    """Hardly anything of a picture, beside what is the same for all."""

    def forward(self, images: Tensor) -> Tensor:
        return torch.stack([0.05 * images[:, 0, :8, :8].mean((1, 2)) + 1, images[:, 0].std((1, 2))], 1)


def test_removed__most_of_the_score_is_left() -> None:
    subject = cocoax.Encoder(Steady(), PREPROCESS, name="steady")
    target = cocoax.similarity_to(reference(torch.tensor([[1.0, 0.0]]), "one"), "dot")
    method = cocoax.Rise(samples=100, grid=4)
    (remark,) = method.explain(subject, picture(), target).remarks  # which every answer shows, so it is no caution too
    assert "With everything removed it" in remark
    texture = cocoax.similarity_to(reference(torch.tensor([[0.0, 1.0]]), "texture"), "dot")  # a blur takes most of that away
    assert method.explain(subject, picture(), texture).remarks == ()
