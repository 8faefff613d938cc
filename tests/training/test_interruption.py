from __future__ import annotations

import os
import signal
import threading

import pytest

from polyarch.errors import Interrupted
from polyarch.training import StopRequest, stop_on_signal

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.mark.parametrize("number", SIGNALS)
def test_first_signal_asks_and_second_raises(number: signal.Signals) -> None:
    with stop_on_signal() as request:
        request.check()  # nothing asked yet
        os.kill(os.getpid(), number)
        assert request.asked
        with pytest.raises(Interrupted, match="nothing is lost"):
            request.check()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)


@pytest.mark.parametrize(("words", "told"), [((), "--resume"), (("the same command",), "the same command")])
def test_the_user_is_told_how_to_go_on(words: tuple[str, ...], told: str) -> None:
    with stop_on_signal(*words) as request:
        request.ask()
        with pytest.raises(Interrupted, match=f"and {told} continues from here"):
            request.check()


@pytest.mark.parametrize("fails", [False, True])
def test_handlers_come_back(fails: bool) -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    try:
        with stop_on_signal():
            assert [signal.getsignal(number) for number in SIGNALS] != before
            if fails:
                raise RuntimeError
    except RuntimeError:
        assert fails
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_other_threads_get_a_request_and_no_handler() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    seen: list[tuple[bool, bool]] = []

    def work() -> None:
        with stop_on_signal() as request:
            seen.append((request.asked, [signal.getsignal(number) for number in SIGNALS] == before))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(False, True)]


class TestAtOnce:
    def test_signal_raises_inside_and_not_after(self) -> None:
        with stop_on_signal() as request:
            with pytest.raises(Interrupted), request.at_once():
                os.kill(os.getpid(), signal.SIGINT)
            assert request.asked

    def test_request_from_before_raises_on_entry(self) -> None:
        request = StopRequest()
        request.ask()
        with pytest.raises(Interrupted), request.at_once():
            pytest.fail("the block must not run")

    def test_nothing_happens_without_a_request(self) -> None:
        request = StopRequest()
        with request.at_once():
            request.check()
        request.ask()  # outside, asking only notes it
        assert request.asked
