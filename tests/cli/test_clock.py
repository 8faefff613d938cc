"""The clock of a command begins before its modules are loaded, once."""

import subprocess
import sys


def test_the_first_command_of_a_process_began_with_its_first_import() -> None:
    program = "import time; before = time.monotonic()\nimport polyarch.cli\nloaded = time.monotonic()\n"
    program += "from polyarch.cli.clock import start_of_command\nfirst, second = start_of_command(), start_of_command()\n"
    program += "assert before <= first < before + (loaded - before) / 2, (before, first, loaded)\nassert second >= loaded\n"
    subprocess.run([sys.executable, "-c", program], check=True)
