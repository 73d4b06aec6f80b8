"""Work of the driver that ends with the job."""

from __future__ import annotations

import threading

import pytest

from penstock.errors import AbortableError
from penstock.spi import run_until_stopped
from tests.waiting import eventually


def raising(error):
    raise error


def test_the_result_is_that_of_the_work():
    assert run_until_stopped(lambda _: 7, lambda: False) == 7


@pytest.mark.parametrize("error", [ValueError("no"), TimeoutError("of the work"), KeyboardInterrupt()], ids=repr)
def test_an_error_of_the_work_is_raised(error):
    with pytest.raises(type(error)) as raised:
        run_until_stopped(lambda _: raising(error), lambda: False)
    assert raised.value is error


def test_work_that_goes_on_is_left_when_the_job_is_to_end_and_told():
    told = threading.Event()

    def work(left):
        eventually(left, 60)
        told.set()

    with pytest.raises(AbortableError, match="the job is being stopped"):
        run_until_stopped(work, lambda: True)
    assert told.wait(60)
