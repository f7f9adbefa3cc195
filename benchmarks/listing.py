"""What it costs to list devices with many plugins installed, in processes of their own.

    python benchmarks/listing.py          5 against 50 plugins, in milliseconds of CPU time

Each plugin is a distribution with metadata of an ordinary length, whose module would end the process. Nothing of them may
be imported, and the fifty may cost at most ten milliseconds more than the five.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

FEW, MANY, ALLOWED = 5, 50, 10.0
ROUNDS = 15

PROGRAM = """
import sys, time
import tripoint as tp
start = time.process_time()
names = tp.plugins.device_names()
text = tp.plugins.report()
spent = time.process_time() - start
mine = [name for name in names if name.startswith("listed")]
loaded = [module for module in sys.modules if module.startswith("listed")]
print(len(mine), len(loaded), spent * 1000)
"""


def install(site: Path, count: int) -> None:
    """Write the distributions as a package manager would leave them."""
    for n in range(count):
        info = site / f"listed_{n}-1.{n}.dist-info"
        info.mkdir(parents=True)
        described = "\n".join(f"Line {i} of what a README says of this plugin." for i in range(120))
        head = f"Metadata-Version: 2.4\nName: listed-{n}\nVersion: 1.{n}\nSummary: A plugin\nRequires-Python: >=3.11\n"
        (info / "METADATA").write_text(
            f"{head}Requires-Dist: tripoint<9,>=0.1\nRequires-Dist: numpy>=2\n\n{described}\n"
        )
        points = f"listed{n}.strided = listed_{n}:backend\ncpu.listed{n} = listed_{n}:backend\n"
        (info / "entry_points.txt").write_text(f"[tripoint.backends.v1]\n{points}")
        (info / "RECORD").write_text("")
        (site / f"listed_{n}.py").write_text("raise SystemExit('a plugin was imported')\n")


def listing(site: Path) -> tuple[int, int, float]:
    """Devices listed, modules imported, milliseconds of CPU time."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("TRIPOINT_")}
    env["PYTHONPATH"] = os.pathsep.join([str(site), *filter(None, [env.get("PYTHONPATH")])])
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True)
    listed, loaded, spent = done.stdout.split()
    return int(listed), int(loaded), float(spent)


def main() -> int:
    """Print the table; the exit status is 1 when something was imported or it costs too much."""
    times: dict[int, list[float]] = {FEW: [], MANY: []}
    with tempfile.TemporaryDirectory() as folder:
        sites = {count: Path(folder) / str(count) for count in times}
        for count, site in sites.items():
            install(site, count)
        for _ in range(ROUNDS):  # interleaved: what else the machine does meets both
            for count, site in sites.items():
                listed, loaded, spent = listing(site)
                if (listed, loaded) != (count, 0):
                    print(f"{listed} devices of {count} are listed, and {loaded} plugins were imported")
                    return 1
                times[count].append(spent)
    for count, spent in times.items():
        print(f"{count:3} plugins: {statistics.median(spent):6.2f} ms (best {min(spent):.2f})")
    more = statistics.median(times[MANY]) - statistics.median(times[FEW])
    print(f"{MANY - FEW} more plugins cost {more:.2f} ms of CPU time; {ALLOWED:g} are allowed")
    return int(more > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
