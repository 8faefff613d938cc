"""The clock of a command begins before its modules are loaded, once."""

import subprocess
import sys

PROGRAM = """
import time
before = time.monotonic()
import polyarch.cli
loaded = time.monotonic()
from polyarch.cli.clock import start_of_command
first, second = start_of_command(), start_of_command()
assert before <= first < (before + loaded) / 2, (before, first, loaded)
assert second >= loaded
"""


def test_the_first_command_of_a_process_began_with_its_first_import() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
