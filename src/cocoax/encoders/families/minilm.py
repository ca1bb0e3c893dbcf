"""all-MiniLM-L6-v2 without transformers, whose import takes longer than everything else that a question needs.

The network is a small BERT (Devlin et al. 2019; Wang et al. 2020): the same operations in the same order as transformers has
them, so that representations are the same; a test compares the two.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from cocoax.checks import import_optional

_HEADS = 12
_LAYERS = 6


class MiniLM(nn.Module):
    """From tokens to unit vectors ``[n, 384]``: the mean of the last layer's states."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = _Embeddings()
        self.layers = nn.ModuleList(_Layer() for _ in range(_LAYERS))

    @classmethod
    def load(cls, path: Path) -> MiniLM:
        """Return the network with the weights of a safetensors file, as transformers writes it."""
        with safe_open(path, framework="pt") as file:
            # Copied to memory of their own, since sums come out differently, in the last bit, where memory is not aligned.
            weights = {_our_name(name): file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        network = cls()
        known = network.state_dict()
        network.load_state_dict({name: tensor for name, tensor in weights.items() if name in known}, assign=True)
        return network.eval()

    def token_states(self, tokens: dict[str, Tensor]) -> Tensor:
        """The last layer's states ``[n, tokens, 384]``."""
        seen = tokens["attention_mask"]
        attended = None if bool(seen.all()) else seen.bool()[:, None, None, :].expand(-1, -1, seen.shape[1], -1)
        states = self.embeddings(tokens["input_ids"])
        for layer in self.layers:
            states = layer(states, attended)
        last: Tensor = states
        return last

    def forward(self, tokens: dict[str, Tensor]) -> Tensor:
        """Vectors ``[n, 384]`` of ``input_ids`` and ``attention_mask``, both ``[n, tokens]``."""
        states, seen = self.token_states(tokens), tokens["attention_mask"]
        mask = seen.unsqueeze(-1).to(states)
        return nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)


class _Embeddings(nn.Module):
    """The sum of the embeddings of words, of places and of the only kind of sentence there is, normalised."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.kinds = (
            nn.Embedding(number, 384, _weight=torch.empty(number, 384)) for number in (30_522, 512, 2)
        )
        self.norm = nn.LayerNorm(384, eps=1e-12)

    def forward(self, ids: Tensor) -> Tensor:
        """States ``[n, tokens, 384]`` of ids ``[n, tokens]``."""
        places = torch.arange(ids.shape[1], device=ids.device)
        states: Tensor = self.norm(self.words(ids) + self.kinds(torch.zeros_like(ids)) + self.places(places[None]))
        return states


class _Layer(nn.Module):
    """Attention among the tokens, then two linear maps for each; both are added to what comes in, and normalised."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.attended = (_linear(384, 384) for _ in range(4))
        self.attended_norm = nn.LayerNorm(384, eps=1e-12)
        self.wide, self.narrow = _linear(384, 1536), _linear(1536, 384)
        self.norm = nn.LayerNorm(384, eps=1e-12)

    def forward(self, states: Tensor, attended: Tensor | None) -> Tensor:
        """States ``[n, tokens, 384]``; ``attended`` says which tokens may be looked at, all if it is None."""
        query, key, value = (
            part(states).unflatten(2, (_HEADS, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=attended)
        states = self.attended_norm(self.attended(mixed.transpose(1, 2).flatten(2)) + states)
        answer: Tensor = self.norm(self.narrow(nn.functional.gelu(self.wide(states))) + states)
        return answer


def _linear(inputs: int, outputs: int) -> nn.Linear:
    """Return a linear map without weights: drawing them takes time, and touches the global random state."""
    return nn.Linear(inputs, outputs, device="meta")


_OUR_NAMES = {
    "embeddings.word_embeddings": "embeddings.words",
    "embeddings.position_embeddings": "embeddings.places",
    "embeddings.token_type_embeddings": "embeddings.kinds",
    "LayerNorm": "norm",
    "encoder.layer": "layers",
    "attention.self.": "",
    "attention.output.dense": "attended",
    "attention.output.norm": "attended_norm",
    "intermediate.dense": "wide",
    "output.dense": "narrow",
    "output.norm": "norm",
}


def _our_name(name: str) -> str:
    """Return what a weight is called here that transformers calls ``name``."""
    for theirs, ours in _OUR_NAMES.items():
        name = name.replace(theirs, ours)
    return name


class WordPieces:
    """The tokenizer of a file ``tokenizer.json``, with as much of the interface of transformers as texts need."""

    is_fast = True
    eos_token_id = None

    def __init__(self, path: Path) -> None:
        library = import_optional("tokenizers", "The starter encoder needs", "starter")
        self.backend_tokenizer: Any = library.Tokenizer.from_file(str(path))
        self.backend_tokenizer.no_truncation()
        self.backend_tokenizer.no_padding()
        ids = map(self.backend_tokenizer.token_to_id, ("[PAD]", "[MASK]", "[UNK]"))
        self.pad_token_id, self.mask_token_id, self.unk_token_id = ids

    def __call__(self, text: str, **_options: object) -> dict[str, Any]:
        """Return token ids, where each token stands in the text, and which tokens are special."""
        encoded = self.backend_tokenizer.encode(text)
        return {
            "input_ids": encoded.ids,
            "offset_mapping": encoded.offsets,
            "special_tokens_mask": encoded.special_tokens_mask,
        }
