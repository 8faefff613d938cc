"""Loading the NAS-Bench-201 table in a fresh process: seconds and memory, against rows as dictionaries.

The ratio is that of seconds by the clock, or of peak memory, to what is allowed, whichever is larger. Processor
seconds, which other programs on the machine change little, are in the result as well.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

from measure import Goal, options, report

NAME = "table_load"
GOAL = Goal("<=", 1.0)
SECONDS = 0.5
MEGABYTES = 60

SIDES = {
    "table": "table = NASBench201.load()",
    "dictionaries": """
with gzip.open(data_root() / "nas_bench_201" / "nb201_table.csv.gz", "rt", newline="") as file:
    table = {row["arch_str"]: row for row in csv.DictReader(file)}
""",
}

PROCESS = """
import csv, gzip, json, time
from pathlib import Path
from polyarch.tables import NASBench201
from polyarch.data import data_root

def megabytes(name):
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1000

Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
resident, started, processor = megabytes("VmRSS"), time.perf_counter(), time.process_time()
{load}
seconds, processor = time.perf_counter() - started, time.process_time() - processor
assert len(table) == 15625
print(json.dumps(dict(
    seconds=seconds,
    processor_seconds=processor,
    megabytes=megabytes("VmRSS") - resident,
    peak_megabytes=megabytes("VmHWM") - resident,
)))
"""


def measured(load: str) -> dict[str, float]:
    """One load in a process of its own, after the imports."""
    command = [sys.executable, "-c", PROCESS.replace("{load}", load)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {key: float(value) for key, value in json.loads(output).items()}


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    rounds = 2 if asked.quick else 7
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    order = list(SIDES)
    for _ in range(rounds):
        for side in order:
            runs[side].append(measured(SIDES[side]))
        order.reverse()
    middle = {
        side: {key: round(statistics.median(run[key] for run in found), 4) for key in found[0]}
        for side, found in runs.items()
    }
    for side, values in middle.items():
        print(side, values)
    ratio = max(middle["table"]["seconds"] / SECONDS, middle["table"]["peak_megabytes"] / MEGABYTES)
    report(
        NAME,
        ratio,
        GOAL,
        options=asked,
        settings={"rounds": rounds, "seconds": SECONDS, "megabytes": MEGABYTES},
        details={"median": middle},
    )


if __name__ == "__main__":
    main()
