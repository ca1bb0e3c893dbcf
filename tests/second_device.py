"""A second device that every machine has: tensors that say they are elsewhere and keep their numbers on the CPU.

As on a GPU, an operation on tensors of both devices is an error, and numbers come back only by a copy. The device is called
``lazy``, a name that torch knows and that nothing here answers to.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

ELSEWHERE = torch.device("lazy", 0)


class Elsewhere(Tensor):
    """A tensor on the second device; ``inner`` has its numbers."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Elsewhere:
        made: Elsewhere = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device=ELSEWHERE
        )
        made.inner = inner
        return made

    def tolist(self) -> Any:
        return self.inner.tolist()

    def numpy(self, *_arguments: Any, **_options: Any) -> Any:
        raise TypeError("can't convert lazy:0 device type tensor to numpy. Use Tensor.cpu() first.")

    def __repr__(self, **_options: Any) -> str:  # type: ignore[override]
        return f"Elsewhere({self.inner!r})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class SecondDevice(TorchDispatchMode):
    """Within this block there is a second device. ``arrivals`` lists the shapes of what was moved there."""

    def __init__(self) -> None:
        super().__init__()
        self.arrivals: list[tuple[int, ...]] = []
        self.operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        here = not any(isinstance(leaf, Elsewhere) for leaf in tree_leaves((args, kwargs)))
        output = _run(func, args, kwargs or {})
        self.operations += not here
        if here and isinstance(output, Elsewhere) and any(isinstance(leaf, Tensor) for leaf in tree_leaves((args, kwargs))):
            self.arrivals.append(tuple(output.shape))
        return output


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    name = func.overloadpacket._qualified_op_name
    leaves = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    there = any(isinstance(leaf, Elsewhere) for leaf in leaves)
    copies = name in ("aten::_to_copy", "aten::copy_")
    for leaf in leaves:
        if there and not copies and not isinstance(leaf, Elsewhere) and leaf.ndim > 0:
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but {name} got {list(leaf.shape)} on the cpu."
            )
    if name == "aten::copy_":
        there = isinstance(args[0], Elsewhere)
    elif kwargs.get("device") is not None:
        there = torch.device(kwargs["device"]).type == ELSEWHERE.type
        kwargs = {**kwargs, "device": torch.device("cpu")}
    outer = {id(leaf.inner): leaf for leaf in leaves if isinstance(leaf, Elsewhere)}
    inner_args, inner_kwargs = tree_map(lambda leaf: leaf.inner if isinstance(leaf, Elsewhere) else leaf, (args, kwargs))
    output = func(*inner_args, **inner_kwargs)

    def back(leaf: Any) -> Any:
        if not there or not isinstance(leaf, Tensor):
            return leaf
        return outer[id(leaf)] if id(leaf) in outer else Elsewhere(leaf)  # of an operation in place, its argument

    return tree_map(back, output)
