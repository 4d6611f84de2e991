"""Coverage-guided fuzzing of the codecs and the engines, with atheris. See `targets` for what is called and asserted.

    tox -e fuzz                                   # twenty seconds for each target; CI takes four
    tox -e fuzz -- --seconds 600                  # ten minutes for each
    tox -e fuzz -- --seconds 60 json http         # these two
    tox -e fuzz -- --replay fuzz/found/json-1f3a  # what was found, once more, with its traceback

What is interesting is kept below ``fuzz/corpus/`` and the next run goes on from there. An input that fails is written
to ``fuzz/found/``, and the run exits with 1; once the fault is mended, write a test of it where its module is tested.
Each target runs in a process of its own: one that raises, hangs for ten seconds or wants two gigabytes ends it.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
CORPUS, FOUND = HERE / "corpus", HERE / "found"
SUPPORT = HERE.parent / "tests" / "_support"
#: The longest input: long enough for several messages, and short enough for many runs a second.
MAX_LENGTH = 4096
_LIMITS = (f"-max_len={MAX_LENGTH}", "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=1")


def main() -> int:
    """Run the targets that were asked for, one after the other. The exit status is 1 where one found something."""
    sys.path.insert(0, str(SUPPORT))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help="the names of targets; all of them if none is given")
    parser.add_argument("--seconds", type=int, default=20, help="how long each target runs")
    parser.add_argument("--replay", type=Path, help="run one input, whose name begins with its target's")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return _fuzz(options.inside, options.seconds)
    from targets import TARGETS

    if options.replay:
        TARGETS[options.replay.name.partition("-")[0]](options.replay.read_bytes())
        return 0
    unknown = set(options.targets) - set(TARGETS)
    if unknown:
        parser.error(f"there is no target {min(unknown)}; there are {', '.join(TARGETS)}")
    return max([_run(name, options.seconds) for name in options.targets or TARGETS])


def _run(name: str, seconds: int) -> int:
    """Fuzz one target in a process of its own, and say how it went."""
    _plant(name)
    FOUND.mkdir(exist_ok=True)
    started = time.monotonic()
    command = [sys.executable, __file__, "--inside", name, "--seconds", str(seconds)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    counted = [line.split()[-1] for line in ended.stdout.splitlines() if "number_of_executed_units" in line]
    runs, took = counted[0] if counted else "?", time.monotonic() - started
    verdict = "found something" if ended.returncode else "nothing found"
    print(f"{name}: {runs} runs in {took:.0f} s, {verdict}", flush=True)
    if ended.returncode:
        print(ended.stdout[-8000:], flush=True)
    return 1 if ended.returncode else 0


def _plant(name: str) -> None:
    import seeds

    folder = CORPUS / name
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds.of(name):
        (folder / hashlib.sha1(seed).hexdigest()).write_bytes(seed)


def _fuzz(name: str, seconds: int) -> int:
    import atheris

    with atheris.instrument_imports(include=["mcp_sansio"]):
        from targets import TARGETS
    limits = [*_LIMITS, f"-max_total_time={seconds}", f"-artifact_prefix={FOUND / name}-"]
    atheris.Setup([sys.argv[0], *limits, str(CORPUS / name)], TARGETS[name])
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
