"""How the site is built: `make docs`."""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
os.environ["COCOAX_PROGRESS"] = "0"
sys.path[:0] = [str(HERE / "_extensions"), str(HERE.parent / "src"), str(HERE.parent)]

import cocoax  # noqa: E402 (found by the path above)
from benchmarks.bench.equal_calls import check_page  # noqa: E402

check_page(HERE / "evidence" / "error-per-call.md")  # was it measured with today's estimates?

project = "Cocoax"
author = "The Cocoax authors"
copyright = "2026, the Cocoax authors"
version = release = cocoax.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "cli_reference",
]
exclude_patterns = ["_build"]
suppress_warnings = ["config.cache"]  # of the gallery's options, which hold functions

# Markdown
myst_enable_extensions = ["colon_fence", "deflist", "attrs_block", "attrs_inline"]
myst_heading_anchors = 4

# Reference, from the docstrings
templates_path = ["_templates"]
autosummary_generate = True
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True, "undoc-members": False}
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
default_role = "code"

# Gallery, executed at every build
sphinx_gallery_conf = {
    "examples_dirs": ["../examples/gallery"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("matplotlib",),
    "capture_repr": ("_repr_html_", "__repr__"),
    "ignore_repr_types": r".*(Figure|Axes).*",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "min_reported_time": 60,
    "reference_url": {"cocoax": None},
}

# Look
html_theme = "furo"
html_title = "Cocoax"
html_logo = "_static/logo.svg"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "sidebar_hide_name": False,
    "light_css_variables": {"color-brand-primary": "#9c1c2b", "color-brand-content": "#1c5a99"},
    "dark_css_variables": {"color-brand-primary": "#f4a58a", "color-brand-content": "#8ec3ef"},
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
linkcheck_ignore = [r"http://127\.0\.0\.1.*", r"http://host.*", r"http://localhost.*"]


def _signature(app: Any, what: str, name: str, thing: Any, options: Any, signature: Any, returned: Any) -> Any:
    """Show the arguments of a class, where its metaclass or ``__new__`` takes any."""
    if what == "class" and "__init__" in vars(thing) and "__new__" in dir(thing):
        shown = inspect.signature(thing.__init__)
        parameters = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in shown.parameters.values()]
        return str(shown.replace(parameters=parameters[1:], return_annotation=inspect.Signature.empty)), None
    return signature, returned


def _skip(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Leave out constructors, whose arguments the class has."""
    return True if name in ("__init__", "__new__") else None


def setup(app: Any) -> None:
    """Register the two functions above."""
    app.connect("autodoc-process-signature", _signature)
    app.connect("autodoc-skip-member", _skip)
