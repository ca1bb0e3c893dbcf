"""The web page: choose a photo, watch its one run, then ask in words or pictures and look at the answer.

    cocoax app                      # http://127.0.0.1:7860, the starter encoder

It works without a network: no fonts, scripts or telemetry from elsewhere. Photos stay on the machine that serves the page.
"""

try:
    import gradio  # noqa: F401 (said here once, for all that need it)
except ImportError as error:
    raise ImportError(f"The web page needs gradio ({error}); install it with: pip install 'cocoax[app]'.") from error

from cocoax.app.events import Page
from cocoax.app.server import launch

__all__ = ["Page", "launch"]
