"""Files of state that no manifest names: those of attempts that failed, and those whose rows were merged."""

from __future__ import annotations

from collections.abc import Collection

from penstock.flow.storage import Storage, StoredFile


def garbage(storage: Storage, live: Collection[str], *, now_ms: int, grace_ms: int) -> list[StoredFile]:
    """The files in ``storage`` that are not among the ``live`` names and were written ``grace_ms`` ago or earlier.

    A batch writes its files before anything names them. So the grace must exceed the time that a batch takes, with all
    its attempts, and the difference between the clocks of this machine and of the storage.
    """
    names = frozenset(live)
    return [each for each in storage.files() if each.name not in names and each.written_ms <= now_ms - grace_ms]


def collect(storage: Storage, live: Collection[str], *, now_ms: int, grace_ms: int) -> list[StoredFile]:
    """Delete :func:`garbage`, and return it."""
    found = garbage(storage, live, now_ms=now_ms, grace_ms=grace_ms)
    for each in found:
        storage.delete(each.name)
    return found
