"""What a snapshot costs. By hand: python -m tests.bench.checkpoint

Times in milliseconds, the best of three where that makes sense; files of 10 to 600 short words, in 250 folders.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tools.checkpoint.objects import Objects
from tools.checkpoint.scan import Bounds, Scanner


def main() -> None:
    print(f"{'files':>7} {'cold':>8} {'settling':>9} {'unchanged':>10} {'one changed':>12} {'restarted':>10}")
    for count in (100, 5_000):
        folder = Path(tempfile.mkdtemp(prefix="checkpoint-"))
        try:
            print(f"{count:>7} " + measure(folder, count))
        finally:
            shutil.rmtree(folder)


def measure(folder: Path, count: int) -> str:
    root = folder / "work"
    fill(root, count)
    objects = Objects(folder / "store")
    scanner = Scanner(root, objects, Bounds())
    cold = timed(scanner.take)
    settling = timed(scanner.take)  # files younger than the clock's grain are read again
    time.sleep(0.3)
    scanner.take()
    unchanged = min(timed(scanner.take) for _ in range(3))

    def change(number: int) -> None:
        next(root.rglob("*.py")).write_text(f"changed {number}")
        time.sleep(0.3)

    one = []
    for number in range(3):
        change(number)
        one.append(timed(scanner.take))
    objects.close()
    again = Objects(folder / "store")
    restarted = timed(Scanner(root, again, Bounds()).take)
    again.close()
    return f"{cold:>8.0f} {settling:>9.0f} {unchanged:>10.0f} {min(one):>12.0f} {restarted:>10.0f}"


def fill(root: Path, count: int) -> None:
    choose = random.Random(1)
    words = ["".join(choose.choices("abcdefghijklmnop \n", k=8)) for _ in range(500)]
    for number in range(count):
        path = root / f"d{number % 50}" / f"e{number % 250}" / f"f{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(choose.choices(words, k=choose.randint(10, 600))))


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


if __name__ == "__main__":
    main()
