"""Runs `polyarch` commands in forks of one process that has imported everything: importing takes seconds each time.

python preloaded.py serve SOCKET         waits for commands
python preloaded.py run SOCKET WORDS...  has a command run there, in this folder, with this environment and terminal
"""

from __future__ import annotations

import faulthandler
import importlib
import importlib.util
import json
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PRELOADED = (
    "alembic.command",
    "altair",
    "optuna.storages",
    "pandas",
    "sklearn.datasets",
    "torch._dynamo",
    "torch.onnx",
)
"""What commands import when they need it."""


def serve(address: str) -> None:
    import polyarch.cli

    for name in PRELOADED:
        if importlib.util.find_spec(name.partition(".")[0]):
            importlib.import_module(name)
    if importlib.util.find_spec("vl_convert"):
        _share_charts()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        print("ready", flush=True)
        while sys.stdin not in select.select([server, sys.stdin], [], [])[0]:  # closed when whoever started this ends
            connection, _ = server.accept()
            message, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 3)
            if os.fork() == 0:
                server.close()
                os.setsid()  # a test may kill it together with its workers
                connection.sendall(struct.pack("<I", os.getpid()))
                for target, descriptor in enumerate(descriptors):
                    os.dup2(descriptor, target)
                code = _answer(json.loads(message), polyarch.cli.main)
                connection.sendall(bytes([code]))
                os._exit(0)
            connection.close()
            for descriptor in descriptors:
                os.close(descriptor)
            _reap()


def run(address: str, words: list[str]) -> int:
    with socket.socket(socket.AF_UNIX) as client:
        begin(client, address, words, dict(os.environ), [0, 1, 2])
        answer = client.recv(1)
    return answer[0] if answer else 1  # no answer: the fork died


def begin(
    client: socket.socket, address: str, words: list[str], environment: dict[str, str], descriptors: list[int]
) -> int:
    """Has a command run with these standard files; the number of its process, whose exit code comes at its end."""
    client.connect(address)
    request = {"words": words, "folder": str(Path.cwd()), "environment": environment}
    socket.send_fds(client, [json.dumps(request).encode()], descriptors)
    number: int = struct.unpack("<I", client.recv(4, socket.MSG_WAITALL))[0]
    return number


def _answer(request: dict[str, Any], main: Callable[[], None]) -> int:
    """The exit code of the command."""
    faulthandler.register(signal.SIGUSR1)  # says where it stands
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["polyarch", *request["words"]]
    code: object = 0
    try:
        main()
    except SystemExit as error:
        code = error.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else int(code is not None)


def _share_charts() -> None:
    """Makes the scripts of reports once for all forks.

    In a process of its own, because it starts threads, which a fork would not have.
    """
    from markupsafe import Markup

    from polyarch.reports import page, scripts

    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with os.fdopen(writing, "w", encoding="utf-8") as file:
            file.write(scripts.library())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as file:
        text = Markup(file.read())
    os.waitpid(child, 0)
    vars(page)["library"] = lambda: text


def _reap() -> None:
    """Forks that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        sys.exit(run(sys.argv[2], sys.argv[3:]))
