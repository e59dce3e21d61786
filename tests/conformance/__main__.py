"""Command line of the conformance run: python -m tests.conformance."""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.conformance import page, results, runner
from tests.conformance.results import Outcome
from tests.conformance.targets import discover
from tests.conformance.tools import TOOLS

_EXIT = "exit status: 0 no FAIL, 1 a FAIL or no result, 2 bad usage, 130 interrupted"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for, print the table, write results.json and, if asked for, docs/conformance.md."""
    options = _parse(arguments)
    kept = options.out / "results.json"
    if options.last:
        try:
            outcomes = results.restore(kept)
        except (OSError, msgspec.MsgspecError) as error:
            print(f"{kept}: {error}; run without --last first", file=sys.stderr)
            return 2
    else:
        pairs = list(runner.all_pairs(options.profile, options.tool))
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
        try:
            outcomes = runner.run(pairs, options.out, options.csdl, options.jobs, _tell)
        except KeyboardInterrupt:
            print("interrupted; nothing is left running", file=sys.stderr)
            return 130
        results.save(kept, outcomes)
    print("\n".join(results.table(outcomes)))
    print(f"\n{options.out}")
    if options.write_docs or options.last:
        if missing := set(runner.all_pairs()) - {(one.profile, one.tool) for one in outcomes if one.counts}:
            print(f"no page: there is no result for {sorted(missing)}", file=sys.stderr)
            return 1
        page.PATH.write_text("\n".join(page.page(outcomes)) + "\n")
        print(page.PATH)
    return 1 if any(outcome.failed for outcome in outcomes) else 0


def _tell(outcome: Outcome) -> None:
    word = "skipped" if outcome.skipped else "no result" if outcome.error else f"{outcome.counts['FAIL']} FAIL"
    print(f"{outcome.profile} {outcome.tool}: {word}", file=sys.stderr, flush=True)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.conformance", description=__doc__, epilog=_EXIT)
    parser.add_argument("--profile", action="append", choices=list(discover()), help="only this one; may be repeated")
    parser.add_argument("--tool", action="append", choices=list(TOOLS), help="only this one; may be repeated")
    parser.add_argument("--csdl", type=Path, default=runner.default_csdl(), help="folder of DMTF's *.xml (BMCSIM_CSDL)")
    parser.add_argument("--out", type=Path, default=runner.ROOT / "conformance-out", help="default: conformance-out")
    parser.add_argument("--jobs", type=int, default=runner.default_jobs(), help="at a time; default: %(default)s")
    parser.add_argument("--write-docs", action="store_true", help="write docs/conformance.md after a run of everything")
    parser.add_argument("--last", action="store_true", help="run nothing: write it from the results of the last run")
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error(f"--jobs is {options.jobs}, but must be at least 1")
    if (options.out / runner.MERGED).resolve() == options.csdl.resolve():
        parser.error(f"--out {options.out} would overwrite the schemas in {options.csdl}; name another folder")
    return options


if __name__ == "__main__":
    sys.exit(main())
