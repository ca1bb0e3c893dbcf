"""Small random text models, written to a folder as real ones are."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertModel, GPT2Config, GPT2Model, PreTrainedTokenizerFast, T5Config, T5Model

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = ["the", "violin", "##ist", "park", "##ed", "her", "car", "behind", "house", "a", "cat", "dog", "red", "big", "."]
LETTERS = [letter for one in "abcdefghijklmnopqrstuvwxyz" for letter in (one, f"##{one}")]
TEXTS = ["The violinist parked her car behind the house.", "a big red dog", "the cat", "A car."]


def bert_tokenizer(length: int = 32) -> PreTrainedTokenizerFast:
    """A WordPiece tokenizer with all special tokens; strips accents and knows no Chinese and no emoji."""
    vocabulary = {
        piece: number for number, piece in enumerate(SPECIAL + PIECES + [one for one in LETTERS if one not in PIECES])
    }
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=length, **names)


def bytes_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer without special tokens, as GPT-2 has it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64)


def seeded(model: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """The same model with weights from a seed, large enough to make representations differ."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name.lower() and "ln_" not in name:
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def save_bert(folder: Path, length: int = 32) -> Path:
    tokenizer = bert_tokenizer(length)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=length,
    )
    with torch.random.fork_rng():
        model = BertModel(config, add_pooling_layer=False)
    seeded(model).save_pretrained(folder)  # type: ignore[operator]
    tokenizer.save_pretrained(folder)
    return folder


def save_gpt2(folder: Path) -> Path:
    tokenizer = bytes_tokenizer()
    config = GPT2Config(
        vocab_size=len(tokenizer), n_embd=16, n_layer=1, n_head=2, n_positions=64, bos_token_id=0, eos_token_id=0
    )
    with torch.random.fork_rng():
        model = GPT2Model(config)
    seeded(model).save_pretrained(folder)  # type: ignore[operator]
    tokenizer.save_pretrained(folder)
    return folder


def save_t5(folder: Path) -> Path:
    tokenizer = bert_tokenizer()
    config = T5Config(vocab_size=len(tokenizer), d_model=16, d_kv=8, d_ff=24, num_layers=1, num_heads=2, pad_token_id=0)
    with torch.random.fork_rng():
        model = T5Model(config)
    seeded(model).save_pretrained(folder)  # type: ignore[operator]
    tokenizer.save_pretrained(folder)
    return folder
