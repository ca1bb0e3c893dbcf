"""Small models of every family with random weights, written to folders as they lie on the Hugging Face hub."""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from torch import nn

POSITIONS = 16  # tokens that a text may have
LETTERS = list(string.ascii_lowercase)
TEXT = {"hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4}
IMAGE = {**TEXT, "image_size": 24, "patch_size": 6}
MEAN, STD = [0.48, 0.46, 0.41], [0.27, 0.26, 0.28]
CROPPED = {
    "image_processor_type": "CLIPImageProcessor",
    "do_resize": True,
    "size": {"shortest_edge": 27},
    "do_center_crop": True,
    "crop_size": {"height": 24, "width": 24},
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": MEAN,
    "image_std": STD,
    "resample": 3,
    "do_convert_rgb": True,
}
SQUEEZED = {
    **{key: value for key, value in CROPPED.items() if "crop" not in key},
    "image_processor_type": "SiglipImageProcessor",
    "size": {"height": 24, "width": 24},
}


@contextmanager
def making() -> Iterator[None]:
    """Without transformers' progress bars and remarks, and without a trace in the global random state."""
    logging = transformers.utils.logging
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        logging.set_verbosity(level)
        logging.enable_progress_bar()


def lively(model: nn.Module, seed: int = 0) -> Any:
    """The model with weights so large that different inputs give clearly different representations."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if (
                not tensor.is_floating_point()
                or "logit" in name
                or name.endswith(("temperature", "inv_freq", "running_mean"))
            ):
                continue
            if name.endswith("running_var"):
                tensor.copy_(0.5 + torch.rand(tensor.shape, generator=generator))
            elif tensor.ndim >= 2:
                fan = max(1, tensor[0].numel())
                tensor.copy_(
                    torch.randn(tensor.shape, generator=generator) * (1.5 / fan**0.5 if "embed" not in name else 0.6)
                )
            elif name.endswith("weight"):
                tensor.copy_(0.7 + 0.6 * torch.rand(tensor.shape, generator=generator))
            else:
                tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.3)
    return model.eval()


def write(folder: Path, model: Any, processor: dict[str, Any] | None = None, tokenizer: Any = None) -> Path:
    model.save_pretrained(folder)
    if processor is not None:
        (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    return folder


# --- tokenizers -----------------------------------------------------------------------------------------------------------


def clip_tokenizer(**options: Any) -> Any:
    words = [*LETTERS, *(letter + "</w>" for letter in LETTERS), "<|startoftext|>", "<|endoftext|>"]
    return transformers.CLIPTokenizer(vocab={word: index for index, word in enumerate(words)}, merges=[], **options)


def bert_tokenizer(**options: Any) -> Any:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *("##" + letter for letter in LETTERS)]
    return transformers.BertTokenizer(vocab={word: index for index, word in enumerate(words)}, **options)


def xlm_roberta_tokenizer(**options: Any) -> Any:
    words = ["<s>", "<pad>", "</s>", "<unk>", "▁", *LETTERS, "<mask>"]
    return transformers.XLMRobertaTokenizer(vocab=[(word, -float(index)) for index, word in enumerate(words)], **options)


def siglip_tokenizer(folder: Path, **options: Any) -> Any:
    """A real sentencepiece model, as SigLIP has."""
    import sentencepiece

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "corpus.txt").write_text("\n".join(["a cat", "a dog", "the quick brown fox jumps over the lazy dog"] * 20))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "corpus.txt"),
        model_prefix=str(folder / "spiece"),
        vocab_size=40,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return transformers.SiglipTokenizer(str(folder / "spiece.model"), model_max_length=16, **options)


def gemma_tokenizer(**options: Any) -> Any:
    words = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "▁", *LETTERS]
    return transformers.Siglip2Tokenizer(vocab={word: index for index, word in enumerate(words)}, merges=[], **options)


# --- text models ----------------------------------------------------------------------------------------------------------


def bert(folder: Path) -> Path:
    """BERT with its pooler."""
    config = transformers.BertConfig(**TEXT, vocab_size=60)
    return write(folder, lively(transformers.BertModel(config)), tokenizer=bert_tokenizer(model_max_length=64))


def sentences(folder: Path, transformer: Path) -> Path:
    """A model of sentence-transformers around a text model: the mean over tokens, as a unit vector."""
    with making():
        part = Transformer(str(transformer))
        part.max_seq_length = 16
        modules = [part, Pooling(part.get_embedding_dimension()), Normalize()]
        model = SentenceTransformer(modules=modules, prompts={"query": "a cat ", "document": ""}, device="cpu")
    model.save(str(folder))
    return folder


# --- image-and-text models ------------------------------------------------------------------------------------------------


def clip(folder: Path, kind: str = "CLIP", eos: int | None = None, **vision: Any) -> Path:
    """CLIP, and models that differ in few things."""
    tokenizer = clip_tokenizer(model_max_length=POSITIONS)
    text = {
        **TEXT,
        "vocab_size": len(tokenizer),
        "max_position_embeddings": POSITIONS,
        "bos_token_id": tokenizer.bos_token_id,
    }
    text |= {"eos_token_id": tokenizer.eos_token_id if eos is None else eos, "pad_token_id": 1}
    vision = {**IMAGE, **vision}
    config = getattr(transformers, f"{kind}Config")(text_config=text, vision_config=vision, projection_dim=12)
    return write(folder, lively(getattr(transformers, f"{kind}Model")(config)), CROPPED, tokenizer)


def clip_with_the_old_eos(folder: Path) -> Path:
    """As OpenAI's weights are configured: a text is read at its largest token."""
    return clip(folder, eos=2)


def clipseg(folder: Path) -> Path:
    return clip(folder, "CLIPSeg")


def metaclip2(folder: Path) -> Path:
    return clip(folder, "MetaClip2")


def groupvit(folder: Path) -> Path:
    grouping = {"depths": [1, 1, 1], "num_group_tokens": [4, 2, 0], "num_output_groups": [4, 2, 2]}
    return clip(folder, "GroupViT", **grouping)


def owlvit(folder: Path) -> Path:
    return clip(folder, "OwlViT")


def siglip(folder: Path) -> Path:
    tokenizer = siglip_tokenizer(folder / "sentencepiece", model_input_names=["input_ids"])  # as on the hub
    text = {**TEXT, "vocab_size": 64, "max_position_embeddings": 16, "projection_size": 32}
    config = transformers.SiglipConfig(text_config=text, vision_config=dict(IMAGE))
    return write(folder, lively(transformers.SiglipModel(config)), SQUEEZED, tokenizer)


def siglip2(folder: Path, **tokenizer_options: Any) -> Path:
    """NaFlex: pictures of any proportions, as patches."""
    tokenizer = gemma_tokenizer(**tokenizer_options)
    text = {**TEXT, "vocab_size": len(tokenizer), "max_position_embeddings": 64, "projection_size": 32}
    vision = {**TEXT, "patch_size": 16, "num_patches": 16}
    config = transformers.Siglip2Config(text_config=text, vision_config=vision)
    naflex = {"image_processor_type": "Siglip2ImageProcessor", "patch_size": 16, "max_num_patches": 20, "do_resize": True}
    naflex |= {"processor_class": "Siglip2Processor"}
    naflex |= {"do_rescale": True, "do_normalize": True, "image_mean": MEAN, "image_std": STD, "resample": 2}
    return write(folder, lively(transformers.Siglip2Model(config)), naflex, tokenizer)


def siglip2_without_mask(folder: Path) -> Path:
    return siglip2(folder, padding_side="right", model_input_names=["input_ids"])


def align(folder: Path) -> Path:
    tokenizer = bert_tokenizer(model_max_length=512)
    text = {**TEXT, "vocab_size": len(tokenizer), "max_position_embeddings": 128}
    vision = {"image_size": 32, "width_coefficient": 0.1, "depth_coefficient": 0.1, "hidden_dim": 32, "depth_divisor": 8}
    vision |= {"kernel_sizes": [3], "in_channels": [32], "out_channels": [16], "depthwise_padding": [], "strides": [1]}
    vision |= {"num_block_repeats": [1], "expand_ratios": [1]}
    config = transformers.AlignConfig(text_config=text, vision_config=vision, projection_dim=8)
    efficientnet = {**SQUEEZED, "image_processor_type": "EfficientNetImageProcessor", "rescale_offset": True}
    efficientnet |= {"rescale_factor": 1 / 127.5, "include_top": False}
    return write(folder, lively(transformers.AlignModel(config)), efficientnet, tokenizer)


def altclip(folder: Path) -> Path:
    tokenizer = xlm_roberta_tokenizer(model_max_length=77)
    text = {**TEXT, "vocab_size": len(tokenizer), "max_position_embeddings": 18, "project_dim": 12, "pad_token_id": 1}
    config = transformers.AltCLIPConfig(text_config=text, vision_config=dict(IMAGE), projection_dim=12)
    return write(folder, lively(transformers.AltCLIPModel(config)), CROPPED, tokenizer)


def chinese_clip(folder: Path) -> Path:
    tokenizer = bert_tokenizer(model_max_length=16)
    text = {**TEXT, "vocab_size": len(tokenizer), "max_position_embeddings": 32}
    config = transformers.ChineseCLIPConfig(text_config=text, vision_config=dict(IMAGE), projection_dim=12)
    processor = {**CROPPED, "image_processor_type": "ChineseCLIPImageProcessor"}
    return write(folder, lively(transformers.ChineseCLIPModel(config)), processor, tokenizer)


def vision_text_dual(folder: Path) -> Path:
    """Any vision model joined to any text model."""
    tokenizer = bert_tokenizer(model_max_length=16)
    config = transformers.VisionTextDualEncoderConfig.from_vision_text_configs(
        transformers.ViTConfig(**IMAGE),
        transformers.BertConfig(**TEXT, vocab_size=len(tokenizer), max_position_embeddings=16),
        projection_dim=12,
    )
    return write(folder, lively(transformers.VisionTextDualEncoderModel(config)), CROPPED, tokenizer)


def open_clip(folder: Path, library: Any, preprocess: dict[str, Any], text: dict[str, Any] | None = None) -> Path:
    """A model as OpenCLIP lays it down."""
    folder.mkdir()
    vision = {"image_size": 32, "layers": 2, "width": 32, "head_width": 8, "patch_size": 8}
    words = {"context_length": 20, "vocab_size": 49408, "width": 32, "heads": 4, "layers": 2} | (text or {})
    config = {
        "model_cfg": {"embed_dim": 12, "vision_cfg": vision, "text_cfg": words},
        "preprocess_cfg": {"mean": MEAN, "std": STD} | preprocess,
    }
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    if "hf_tokenizer_name" in words:
        bert_tokenizer().save_pretrained(folder)
    with making():
        model = lively(library.create_model(f"local-dir:{folder}", load_weights=False))
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    return folder


DUAL: dict[str, Callable[[Path], Path]] = {
    maker.__name__: maker
    for maker in (
        clip,
        clip_with_the_old_eos,
        siglip,
        siglip2,
        siglip2_without_mask,
        align,
        altclip,
        chinese_clip,
        clipseg,
        metaclip2,
        groupvit,
        owlvit,
        vision_text_dual,
    )
}


# --- vision models --------------------------------------------------------------------------------------------------------

VIT = {**CROPPED, "image_processor_type": "ViTImageProcessor", "size": {"height": 24, "width": 24}, "do_center_crop": False}
BIT = {**CROPPED, "image_processor_type": "BitImageProcessor"}  # DINOv2's
CONVNEXT = {**SQUEEZED, "image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 32}, "crop_pct": 0.875}
DEIT = {**CROPPED, "image_processor_type": "DeiTImageProcessor", "size": {"height": 28, "width": 28}, "resample": 3}
STAGES = {"depths": [1, 1], "hidden_sizes": [8, 16]}


def vision(kind: str, processor: dict[str, Any], suffix: str = "Model", **config: Any) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        configuration = getattr(transformers, f"{kind}Config")(**config)
        return write(folder, lively(getattr(transformers, kind + suffix)(configuration)), processor)

    return make


CLASSIFIER = "ForImageClassification"
RESNET = {**STAGES, "embedding_size": 8}
SWIN = {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4}
VISION: dict[str, Callable[[Path], Path]] = {
    "vit": vision("ViT", VIT, **IMAGE),
    "vit_classifier": vision("ViT", VIT, CLASSIFIER, **IMAGE, num_labels=5),
    "deit": vision("DeiT", DEIT, **IMAGE),
    "deit_classifier": vision("DeiT", DEIT, CLASSIFIER, **IMAGE, num_labels=5),
    "beit": vision("Beit", VIT, **IMAGE),
    "beit_classifier": vision("Beit", VIT, CLASSIFIER, **IMAGE, num_labels=5),
    "dinov2": vision("Dinov2", BIT, **IMAGE),
    "dinov2_classifier": vision("Dinov2", BIT, CLASSIFIER, **IMAGE, num_labels=5),
    "resnet": vision("ResNet", CONVNEXT, **RESNET),
    "resnet_classifier": vision("ResNet", CONVNEXT, CLASSIFIER, **RESNET, num_labels=5),
    "convnext": vision("ConvNext", CONVNEXT, **STAGES, num_stages=2),
    "convnext_classifier": vision("ConvNext", CONVNEXT, CLASSIFIER, **STAGES, num_stages=2, num_labels=5),
    "swin": vision("Swin", {**VIT, "size": {"height": 32, "width": 32}}, **SWIN),
    "swin_classifier": vision("Swin", {**VIT, "size": {"height": 32, "width": 32}}, CLASSIFIER, **SWIN, num_labels=5),
    "clip_vision": vision("CLIPVision", CROPPED, **IMAGE),
    "siglip_vision": vision("SiglipVision", SQUEEZED, **IMAGE),
}
