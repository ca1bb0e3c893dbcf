"""Troubled surroundings: a full disk, read-only folders, no home, another user's cache, several at once, a wrong clock.

    python benchmarks/campaigns/trouble.py

In each, ``cocoax ask`` runs on a small picture; where nothing can be written, ``localise`` and ``index`` run too. A command
must answer, or say in a sentence what is wrong, with the name of the file or folder; and what was computed before must still
be there. Ends with 1 if one does not. ``--only WORD`` tries those that have the word in their titles.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

import cocoax

ARGUMENTS = ("--encoder", "simclr-cifar10-small", "--samples", "300")
ROOT = os.getuid() == 0
NOBODY = 65534


@dataclass
class Place:
    """Folders of one trial, and what is in the environment of its process."""

    top: Path
    environment: dict[str, str] = field(default_factory=dict)
    launcher: tuple[str, ...] = ("-m", "cocoax")
    what: str = "ask"

    @property
    def out(self) -> Path:
        """Where answers go."""
        return self.top / "out"

    @property
    def cache(self) -> Path:
        """Where the cache is."""
        return self.top / "cache"

    def command(self, *more: str) -> list[str]:
        """Return the command."""
        own = {
            "ask": ("ask", str(self.top / "photo.png"), *ARGUMENTS),
            "localise": ("paper", "localise", str(self.top), "--collages", "3", "--samples", "40"),
            "index": ("index", str(self.top), *ARGUMENTS, "--shard", "2"),
        }
        return [sys.executable, *self.launcher, *own[self.what], "--out", str(self.out), *more]

    def variables(self) -> dict[str, str]:
        """Return the environment."""
        here = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")}
        own = {"COCOAX_CACHE": str(self.cache), "COCOAX_PROGRESS": "0", "OMP_NUM_THREADS": "1", "MPLCONFIGDIR": str(self.top)}
        together = {**here, **own, **self.environment}
        return {name: value for name, value in together.items() if value != "unset"}

    def ask(self, *more: str, prepare: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
        """Run the command."""
        return subprocess.run(
            self.command(*more), env=self.variables(), capture_output=True, text=True, check=False, preexec_fn=prepare
        )


def answered(done: subprocess.CompletedProcess[str], *words: str) -> str:
    """Return what is wrong where a command should have answered, with these words in its notes; nothing if it did."""
    if done.returncode or "wrote" not in done.stdout:
        return f"ended with {done.returncode}: {done.stderr[-500:]}"
    return _said(done, words)


def refused(done: subprocess.CompletedProcess[str], *words: str) -> str:
    """Return what is wrong where a command should have refused in a sentence with these words; nothing if it did."""
    if done.returncode != 1 or "Traceback" in done.stderr:
        return f"ended with {done.returncode}: {done.stderr[-500:]}"
    return _said(done, words)


def _said(done: subprocess.CompletedProcess[str], words: tuple[str, ...]) -> str:
    missing = [word for word in words if word not in done.stderr]
    return f"does not say {missing[0]!r} but {done.stderr[-500:]!r}" if missing else ""


def limited(size: int) -> Callable[[], None]:
    """Return what lets a process write no file beyond a size, as a disk that is full would."""

    def prepare() -> None:
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return prepare


def forbid(folder: Path, rights: int) -> None:
    """Give a folder and all in it to another user, with these rights for everybody else; or to nobody, unless one is root."""
    for path in (*folder.rglob("*"), folder):
        path.chmod(rights | (0o700 if ROOT else 0))
        if ROOT:
            os.chown(path, NOBODY, NOBODY)


def humble() -> None:
    """Give up root's right to do what the rights of files forbid."""
    if ROOT:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (1, 2, 3):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER
            libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def full_disk(place: Place) -> str:
    """No file may be written: the run is not kept, with a note, and the answers are refused by the name of a file."""
    return refused(place.ask(prepare=limited(100)), "cannot be written", str(place.out), "File too large")


def full_disk_of_files(place: Place) -> str:
    """The answers are refused by the name of a file, nothing half written is left, and the run is kept."""
    place.out.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(place.out)], capture_output=True).returncode:
        return "skipped: no file system can be mounted here"
    try:
        (place.out / "much").write_bytes(bytes(150_000))
        done = place.ask()
        trouble = refused(done, str(place.out), "No space left on device")
        left = [file.name for file in place.out.iterdir() if file.suffix == ".part"]
        return trouble or (f"left {left}" if left else "") or _run_is_kept(place)
    finally:
        subprocess.run(["umount", str(place.out)], check=True)


def _again(place: Place) -> str:
    """Return what is wrong if the same command, with nothing in its way any more, does not end well."""
    done = place.ask()
    return f"afterwards it ended with {done.returncode}: {done.stderr[-500:]}" if done.returncode else ""


def of(what: str, trouble: Callable[[Place], str]) -> Callable[[Place], str]:
    """Return a trouble in which another command than ``ask`` runs."""

    def tried(place: Place) -> str:
        place.what = what
        return trouble(place)

    tried.__doc__ = trouble.__doc__
    return tried


def nothing_written(place: Place) -> str:
    """Refused by the name of a file, with nothing half written; afterwards the same command ends well."""
    trouble = refused(place.ask(prepare=limited(100)), str(place.out), "File too large")
    left = [file.name for file in place.out.rglob("*.part")]
    return trouble or (f"left {left}" if left else "") or _again(place)


def small_disk(place: Place) -> str:
    """Refused by the name of a file, with nothing half written; once there is room, the same command ends well."""
    place.out.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(place.out)], capture_output=True).returncode:
        return "skipped: no file system can be mounted here"
    try:
        trouble = refused(place.ask(), str(place.out), "Errno 28")
        left = [file.name for file in place.out.rglob("*.part")]
        subprocess.run(["mount", "-o", "remount,size=50m", str(place.out)], check=True)
        return trouble or (f"left {left}" if left else "") or _again(place)
    finally:
        subprocess.run(["umount", str(place.out)], check=True)


def read_only_results(place: Place) -> str:
    """Refused by the name of the folder, which stays empty; once it may be written, the same command ends well."""
    place.out.mkdir()
    forbid(place.out, 0o055)
    trouble = refused(place.ask(prepare=humble), str(place.out), "Permission denied")
    left = [file.name for file in place.out.rglob("*")]
    place.out.chmod(0o777)
    return trouble or (f"left {left}" if left else "") or _again(place)


def _run_is_kept(place: Place) -> str:
    """Return what is wrong if what was sampled is not in the cache."""
    return "" if list((place.cache / "runs").glob("*.safetensors")) else "the run was lost"


def read_only_out(place: Place) -> str:
    """The answers are refused by the name of the folder, before or after sampling; a run that was made is kept."""
    place.out.mkdir()
    forbid(place.out, 0o055)
    return refused(place.ask(prepare=humble), str(place.out), "Permission denied") or _run_is_kept(place)


def read_only_cache(place: Place) -> str:
    """The cache cannot be written: the answer is there, with a note."""
    place.cache.mkdir()
    forbid(place.cache, 0o055)
    return answered(place.ask(prepare=humble), "cannot be written", str(place.cache), "Permission denied")


def cache_of_another_user(place: Place) -> str:
    """A full cache that may not even be read: the answer is there, with a note, and the cache is as it was."""
    trouble = answered(place.ask())
    before = sorted(place.cache.rglob("*"))
    forbid(place.cache, 0)
    trouble = trouble or answered(place.ask(prepare=humble), "Permission denied")
    for path in (place.cache, *before):
        path.chmod(0o700)
    return trouble or ("" if sorted(place.cache.rglob("*")) == before else "the cache has changed")


def no_home(place: Place) -> str:
    """Neither a variable nor a home says where the cache may be: the answer is there, with a note."""
    place.environment = {"COCOAX_CACHE": "unset", "HOME": "unset"}
    place.launcher = ("-c", "import pwd; pwd.getpwuid = {}.__getitem__; from cocoax.cli.main import main; main()")
    return answered(place.ask(), "set COCOAX_CACHE to a folder")


def empty_variable(place: Place) -> str:
    """``COCOAX_CACHE=`` is no folder: least of all the current one."""
    place.environment = {"COCOAX_CACHE": "", "HOME": str(place.top)}
    trouble = answered(place.ask())
    return trouble or ("" if (place.top / ".cache" / "cocoax" / "runs").is_dir() else "no cache in the home folder")


def two_at_once(place: Place) -> str:
    """Four processes with four questions into one folder: four whole reports, and one run."""
    images = [place.top / f"{number}.png" for number in range(4)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    commands = [place.command("--like-image", str(image)) for image in images]
    processes = [subprocess.Popen(command, env=place.variables(), **quiet) for command in commands]  # type: ignore[call-overload]
    said = [process.communicate()[1].decode() for process in processes]
    if any(process.returncode for process in processes):
        return " ".join(said)
    names = sorted(file.name for file in place.out.glob("report*.html"))
    if names != ["report-2.html", "report-3.html", "report-4.html", "report.html"]:
        return f"the reports are {names}"
    maps = [cocoax.Attribution.load(file) for file in place.out.glob("*.safetensors")]
    asked = {attribution.name for attribution in maps}
    return "" if len(maps) == len(asked) == 4 else f"{len(maps)} maps about {asked}"


def wrong_clock(place: Place) -> str:
    """Everything in the cache is from a year ahead: it is used, and the next question goes on from it."""
    trouble = answered(place.ask())
    later = time.time() + 365 * 86_400
    files = [file for file in place.cache.rglob("*") if file.is_file()]
    for file in files:
        os.utime(file, (later, later))
    before = {file: file.read_bytes() for file in files}
    trouble = trouble or answered(place.ask())
    changed = [file.name for file in files if file.read_bytes() != before[file]]
    info = subprocess.run(
        [sys.executable, "-m", "cocoax", "cache", "--clear", "--yes", "--older-than", "1d"],
        env=place.variables(),
        capture_output=True,
        text=True,
        check=False,
    )
    return trouble or (f"{changed} were made again" if changed else "") or ("" if "deleted 0" in info.stdout else info.stdout)


def umask(place: Place) -> str:
    """Under ``umask 077`` nobody else may read the answers, nor the run in the cache."""

    def private() -> None:
        os.umask(0o077)

    trouble = answered(place.ask(prepare=private))
    files = [file for folder in (place.out, place.cache) for file in folder.rglob("*") if file.is_file()]
    open_files = [file.name for file in files if file.stat().st_mode & 0o077]
    return trouble or (f"others may read {open_files}" if open_files else "")


TROUBLES: dict[str, Callable[[Place], str]] = {
    "no file can be written": full_disk,
    "disk of 200 kB": full_disk_of_files,
    "folder for answers is read-only": read_only_out,
    "cache is read-only": read_only_cache,
    "cache of another user": cache_of_another_user,
    "no home": no_home,
    "`COCOAX_CACHE=` is empty": empty_variable,
    "four processes, one folder": two_at_once,
    "clock goes back a year": wrong_clock,
    "umask 077": umask,
    **{
        f"`{what}`, {title}": of(what, trouble)
        for what in ("localise", "index")
        for title, trouble in (
            ("no file can be written", nothing_written),
            ("disk without room", small_disk),
            ("folder for results is read-only", read_only_results),
        )
    },
}


def main() -> int:
    """Try everything; print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="a word in the title")
    only, wrong = parser.parse_args().only, 0
    print("| surroundings | what must happen | outcome |\n|---|---|---|")
    source = np.random.default_rng(0)
    for title, trouble in ((title, trouble) for title, trouble in TROUBLES.items() if only in title):
        top = Path(tempfile.mkdtemp())
        try:
            top.chmod(0o755)
            for name in ("photo", *"0123"):
                Image.fromarray(source.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(top / f"{name}.png")
            outcome = trouble(Place(top))
        finally:
            shutil.rmtree(top, ignore_errors=True)
        wrong += bool(outcome) and not outcome.startswith("skipped")
        expected = " ".join((trouble.__doc__ or "").split())
        print(f"| {title} | {expected} | {outcome or 'as it must'} |", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
