"""Image-and-text encoders through transformers, ``"clip:NAME_OR_FOLDER"``: CLIP, SigLIP, SigLIP 2, ALIGN and their like."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn.functional import pad

from cocoax.encoders.encoder import Encoder
from cocoax.encoders.families.hub import Repository, interpolating, layer_of, name_of
from cocoax.encoders.families.processors import Preprocess, preprocess_of
from cocoax.encoders.forward import ModelFunction, Pooling
from cocoax.encoders.text import TextEncoder
from cocoax.inputs import Pictures
from cocoax.inputs.text import Tokenizer
from cocoax.show import WHOLE, Box


def load_clip(
    name: str,
    *,
    pooling: Pooling | None = None,
    layer: str | None = None,
    preprocess: Preprocess | None = None,
    revision: str | None = None,
    interpolate: bool = False,
) -> Encoder:
    """Load an image encoder whose ``.text`` is the text tower, with the preprocessing and the tokenizer of their training.

    Args:
        name: on the Hugging Face hub, or a folder written by ``save_pretrained`` (model and processor).
        pooling, layer: see :func:`dual_encoder`.
        preprocess: replaces the preprocessing that comes with the weights.
        revision: a branch, tag or commit of the repository on the hub.
        interpolate: see :func:`dual_encoder`.

    """
    repository = Repository("clip", name, revision)
    if not is_dual(repository.model_class):
        raise ValueError(
            f"{name!r} is a model of type {repository.config.model_type!r}, which has no image and text towers; "
            f"for vision or text models alone, load 'hf:{name}'."
        )
    _check_pooling(pooling, layer)
    model, _ = repository.model(repository.transformers.AutoModel)
    if preprocess is None:
        preprocess = dual_preprocess(model, repository.image_processor())
    tokenizer = None if layer is not None else repository.tokenizer()
    return dual_encoder(
        model, preprocess, tokenizer, pooling=pooling, layer=layer, name=repository.title, interpolate=interpolate
    )


def dual_encoder(
    model: Any,
    preprocess: Preprocess | None,
    tokenizer: Any = None,
    *,
    pooling: Pooling | None = None,
    layer: str | nn.Module | None = None,
    name: str | None = None,
    interpolate: bool = False,
) -> Encoder:
    """Return the encoder around a model of transformers with an image tower and a text tower.

    Representations are what ``get_image_features`` and ``get_text_features`` of the model give, so that the cosine of a
    picture and a caption is the model's own score, before temperature and bias.

    Args:
        model: it is left as it is.
        preprocess: from a picture to the tensor that it takes.
        tokenizer: of its texts; without one there is no text tower.
        pooling: with ``layer``, what makes one vector of its output.
        layer: take the representation from this submodule, or the one of this name, instead; there is no text tower then,
            since texts live elsewhere.
        name: what pictures call it.
        interpolate: take photos of other shapes (:meth:`cocoax.Encoder.whole`) by interpolating the embeddings of positions.

    """
    _check_pooling(pooling, layer)
    name = name or name_of(model)
    naflex = _is_naflex(model)
    if naflex:
        tower = ModelFunction(model, _patch_features, patch=model.config.vision_config.patch_size)
    else:
        tower = ModelFunction(model, _image_features, **interpolating(model.get_image_features, interpolate))
    text = None if layer is not None or tokenizer is None else _text_tower(model, tokenizer, name)
    inputs = Pictures(preprocess, any_shape=naflex)
    layer = layer_of(model, layer)
    return Encoder(tower, None, layer, pooling=pooling or "mean", text=text, name=name, inputs=inputs)


def dual_preprocess(model: Any, processor: Any) -> Preprocess:
    """Return what the image processor of a model with two towers does."""
    return _PatchPreprocess(processor) if _is_naflex(model) else preprocess_of(processor)


def _is_naflex(model: Any) -> bool:
    """Whether a model takes pictures of any shape, as patches."""
    return bool(model.config.model_type == "siglip2")


def _check_pooling(pooling: Pooling | None, layer: str | nn.Module | None) -> None:
    if pooling is not None and layer is None:
        raise ValueError("The 'pooling' parameter says what becomes of a layer's output; pass layer= as well.")


def is_dual(model_class: type | None) -> bool:
    """Whether a class of models has an image and a text tower."""
    return hasattr(model_class, "get_image_features") and hasattr(model_class, "get_text_features")


# --- images ---------------------------------------------------------------------------------------------------------------


def _image_features(model: Any, images: Tensor, **options: bool) -> Tensor:
    """Return the image features ``[n, d]`` of pictures ``[n, 3, H, W]``."""
    return _features(model.get_image_features(pixel_values=images, **options))


def _patch_features(model: Any, images: Tensor, patch: int) -> Tensor:
    """Return the same of a model that takes patches (SigLIP 2 NaFlex); height and width are multiples of their size."""
    n, channels, height, width = images.shape
    rows, columns = height // patch, width // patch
    cells = images.reshape(n, channels, rows, patch, columns, patch)
    patches = cells.permute(0, 2, 4, 3, 5, 1).reshape(n, rows * columns, -1)
    shapes = torch.tensor([[rows, columns]] * n, device=images.device)
    mask = torch.ones(n, rows * columns, dtype=torch.long, device=images.device)
    return _features(model.get_image_features(pixel_values=patches, pixel_attention_mask=mask, spatial_shapes=shapes))


class _PatchPreprocess:
    """The image processor of such a model, with its patches put together again to a picture ``[3, H, W]``."""

    def __init__(self, processor: Any) -> None:
        if "spatial_shapes" not in processor.model_input_names:
            raise ValueError(
                f"The model takes patches, but its image processor is {type(processor).__name__}, which gives none; expected "
                "Siglip2ImageProcessor as the image_processor_type in preprocessor_config.json."
            )
        self.processor = processor

    def __call__(self, image: Image.Image) -> Tensor:
        """The resized and normalised picture, of the proportions of the original."""
        output = self.processor(images=image.convert("RGB"), return_tensors="pt")
        rows, columns = output["spatial_shapes"][0].tolist()
        patch = self.processor.patch_size
        patches: Tensor = output["pixel_values"][0][: rows * columns].float()  # the rest is padding
        return patches.view(rows, columns, patch, patch, 3).permute(4, 0, 2, 1, 3).reshape(3, rows * patch, columns * patch)

    def box(self, size: tuple[int, int]) -> Box:
        """All of a picture is shown."""
        return WHOLE

    def __repr__(self) -> str:
        config = self.processor.to_dict()
        return f"{type(self).__name__}({sorted((key, str(value)) for key, value in config.items())})"


def _features(output: Any) -> Tensor:
    """The features, from what ``get_..._features`` gives: an output since transformers 5, before that the tensor itself."""
    features: Tensor = output if isinstance(output, Tensor) else output.pooler_output
    return features


# --- texts ----------------------------------------------------------------------------------------------------------------


def _text_tower(model: Any, tokenizer: Any, name: str) -> TextEncoder:
    """The encoder of texts of a model with two towers."""
    kind: str = model.config.model_type
    defaults = _text_defaults(kind)
    limit = min(tokenizer.model_max_length, _positions(model), defaults.get("max_length", tokenizer.model_max_length))
    # SigLIP was trained on texts that are padded to the full length, and its padding counts.
    fill = kind.startswith("siglip") or defaults.get("padding") == "max_length"
    padding = tokenizer.pad_token_id or 0
    tower = ModelFunction(
        model,
        _text_features,
        length=limit if fill else None,
        padding=padding,
        left=tokenizer.padding_side == "left",
        masked="attention_mask" in tokenizer.model_input_names,
    )
    return TextEncoder(tower, Tokenizer(tokenizer), limit=limit, pad=padding, name=name)


def _text_defaults(kind: str) -> dict[str, Any]:
    """Return the defaults of the text processor of this type of models."""
    transformers = import_module("transformers")
    mapping = getattr(transformers.models.auto.processing_auto, "PROCESSOR_MAPPING_NAMES", {})
    processor = getattr(transformers, mapping.get(kind) or "", None)
    before: dict[str, dict[str, Any]] = getattr(getattr(processor, "valid_processor_kwargs", None), "_defaults", {})
    # Since transformers 5.23 the class itself has them.
    now = getattr(processor, "text_kwargs", None)
    return {**before.get("text_kwargs", {}), **(now if isinstance(now, dict) else {})}


def _positions(model: nn.Module) -> int:
    """The most tokens the text tower has positions for."""
    numbers = [
        # RoBERTa and its like count positions from the one after the padding's.
        part.num_embeddings - (0 if part.padding_idx is None else part.padding_idx + 1)
        for name, part in model.named_modules()
        if isinstance(part, nn.Embedding) and "position" in name.rpartition(".")[2] and "text" in name
    ]
    return min(numbers, default=2**31)


def _text_features(
    model: Any, tokens: dict[str, Tensor], length: int | None, padding: int, left: bool, masked: bool
) -> Tensor:
    """Return the text features ``[n, d]`` of token ids and attention mask ``[n, tokens]``.

    Args:
        model: has ``get_text_features``.
        tokens: ids and mask.
        length: fill every text up to this length, or None where filling makes no difference.
        padding: the token to fill with.
        left: fill on the left.
        masked: tell the model which tokens fill.

    """
    ids, mask = tokens["input_ids"], tokens["attention_mask"]
    if length is not None:
        more = (0, length - ids.shape[1])
        ids, mask = pad(ids, more, value=padding), pad(mask, more)
        if left:  # each row turns by its own number of fillers
            turned = (torch.arange(length, device=ids.device) + mask.sum(1, keepdim=True)) % length
            ids, mask = ids.gather(1, turned), mask.gather(1, turned)
    return _features(model.get_text_features(input_ids=ids, **({"attention_mask": mask} if masked else {})))
