"""Run wire cases through the product: `python -m tests.wire [FOLDER ...]`. One line a case, then a total."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.wire.judging import judge
from tests.wire.playing import Case, play
from tests.wire.serving import Replay

AT_ONCE = 8


async def run(server: Any, cases: list[Case], folder: Path) -> dict[str, list[str]]:
    """What is wrong with each case, by id. Several at a time: most of them only wait."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(case: Case) -> list[str]:
        async with gate:
            place = folder / case["id"]
            place.mkdir()
            try:
                return judge(case, await play(server, case, place))
            except Exception as error:  # noqa: BLE001 one broken case must not hide the others
                return [f"{type(error).__name__}: {error}"]

    wrong = await asyncio.gather(*(one(case) for case in cases))
    return dict(zip((case["id"] for case in cases), wrong, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.wire", description=__doc__)
    parser.add_argument("places", nargs="*", type=Path, help="folders or files of cases (default: those beside this)")
    parser.add_argument("--only", default="", help="cases whose id contains this")
    parser.add_argument("--chunk-bytes", type=int, default=0, help="let the server write so many bytes at a time")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    places = options.places or [Path(__file__).parent]
    with Replay(*places, chunk_bytes=options.chunk_bytes) as server, tempfile.TemporaryDirectory() as folder:
        cases = [case for case in server.cases.values() if options.only in case["id"]]
        results = asyncio.run(run(server, cases, Path(folder)))
    for name, wrong in sorted(results.items()):
        print(f"{'FAIL' if wrong else 'pass'}  {name}")
        for line in wrong:
            print(f"        {line}")
    failed = sum(bool(wrong) for wrong in results.values())
    print(f"{len(results) - failed} of {len(results)} pass")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
