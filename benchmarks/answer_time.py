"""How long a visitor of the web page waits for an answer: the six sample photos with their questions, without a browser.

    python benchmarks/answer_time.py [--fixed] [--out FILE]

For each photo: masked copies and seconds by the clock until the first map, until the strongest region is beyond noise, until
nine tenths of the map are not hatched, and until the run ends; the error of the map then, and how much of it is hatched.
``--fixed`` looks at 1000 copies of every photo, all masks drawn anew, as the page did before.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import cocoax
from cocoax.app.events import SAMPLES
from cocoax.app.service import EncoderService
from cocoax.app.sessions import Session
from cocoax.data import collage, photo

HATCHED = 0.1  # of a map, when it counts as known


def watched(service: EncoderService, name: str) -> dict[str, Any]:
    """Look at a photo as the page does, and return what a visitor would have seen when."""
    session = Session()
    began = time.perf_counter()
    service.choose(session, collage() if name == "collage" else photo(name), SAMPLES[name])
    noted: dict[str, Any] = {"photo": name}
    for _ in service.sample(session):
        answer, progress = session.answers[0], session.progress
        if answer is None or progress is None or not progress.running:
            continue
        now = {"copies": progress.samples, "seconds": time.perf_counter() - began}
        noted.setdefault("first map", now)
        if answer.regions and not answer.regions[0].within_noise:
            noted.setdefault("first region", now)
        if answer.attribution.effects.uncertain().mean() <= HATCHED:
            noted.setdefault("unhatched", now)
    answer = session.answers[0]
    assert answer is not None
    assert session.run is not None
    hatched = answer.attribution.effects.uncertain()
    return noted | {
        "end": {"copies": len(session.run), "seconds": time.perf_counter() - began},
        "error": session.error,
        "hatched": float(hatched.mean()),
        "score": answer.score,
        "left": answer.attribution.baseline_score,
    }


def main() -> None:
    """Read the command line, and print one line for each photo."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fixed", action="store_true", help="1000 copies of every photo")
    parser.add_argument("--crop", action="store_true", help="the square in the middle of a photo")
    parser.add_argument("--out", type=Path, help="a file that keeps the lines, as JSON")
    options = parser.parse_args()
    encoder = cocoax.load("starter")
    if options.fixed:
        method = cocoax.Rise(complements=False)
    else:
        from cocoax.questions.answers import asking_method

        method = asking_method()
    service = EncoderService(encoder if options.crop else encoder.whole(), method)
    service.warm_up()
    for name in SAMPLES:
        seen = watched(service, name)
        when = ", ".join(
            f"{what} {seen[what]['copies']} copies {seen[what]['seconds']:.1f} s" if what in seen else f"no {what}"
            for what in ("first map", "first region", "unhatched", "end")
        )
        print(f"{name}: {when}; error {seen['error']:.1%}, hatched {seen['hatched']:.1%}", flush=True)
        if options.out is not None:
            with options.out.open("a") as file:
                file.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main()
