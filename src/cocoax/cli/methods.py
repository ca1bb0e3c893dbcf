"""Attribution methods by the names that the command line gives them."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from inspect import signature
from typing import Any

import cocoax

METHODS = {  # the classes are those of cocoax.methods
    "rise": "Rise",
    "kernel-shap": "KernelShap",
    "occlusion": "Occlusion",
    "vanilla-gradients": "VanillaGradients",
    "smoothgrad": "SmoothGrad",
    "integrated-gradients": "IntegratedGradients",
    "gradient-shap": "GradientShap",
}


def method_class(name: str) -> type[cocoax.Method]:
    """Return the class of the method with this name, or of the user's own at ``module:Class``; raise if there is none."""
    from cocoax import methods as attribution

    if ":" in name:
        return _own_class(*name.split(":", 1))
    if name not in METHODS:
        close = difflib.get_close_matches(name, METHODS, n=1, cutoff=0.6)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(
            f"No method is called {name!r}; known are {', '.join(METHODS)}.{hint} One of your own is written module:Class."
        )
    method: type[cocoax.Method] = getattr(attribution, METHODS[name])
    return method


def _own_class(module: str, name: str) -> type[cocoax.Method]:
    """Return the class of this name in a module that Python finds, or in a file of the folder where the user is."""
    sys.path.insert(0, os.getcwd())
    try:
        method: object = getattr(import_module(module), name, None)
    except ImportError as error:
        raise ValueError(f"The module {module!r} of the method {name!r} cannot be imported: {error}.") from error
    finally:
        sys.path.remove(os.getcwd())
    if not (isinstance(method, type) and issubclass(method, cocoax.Method)):
        raise ValueError(f"{name!r} in the module {module!r} is no attribution method, a subclass of cocoax.Method.")
    return method


def option_names(method: type[cocoax.Method]) -> set[str]:
    """Return the names of the options that a class of methods has."""
    return set(signature(method).parameters)


def method_with(name: str, options: Mapping[str, Any]) -> cocoax.Method:
    """Return a method with those of the options that are not None; raise if it lacks one of them.

    ``options`` are all that a command has for methods.
    """
    method = method_class(name)
    chosen = {option: value for option, value in options.items() if value is not None}
    has = option_names(method)
    for option in chosen:
        if option not in has:
            known = [f"--{other}" for other in options if other in has]
            raise ValueError(f"The method {name!r} has no option --{option}; it has {' and '.join(known) or 'none'}.")
    return method(**chosen)
