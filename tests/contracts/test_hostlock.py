"""What a lock on a host must do, on every host."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from bisectperf.errors import HostUnavailable, Locked, UserError
from bisectperf.launchers.hostlock import HostLock


@pytest.fixture
def lock(launcher, host):
    """Return a maker of locks on the host, by the name of their run."""

    def lock(run, **more):
        words = {"name": "launches", "owner": f"run {run} of a@laptop", "token": run, "python": launcher.python}
        return HostLock(host, launcher.root, launcher.tools, **{**words, **more})

    return lock


@pytest.fixture
def edit(launcher, host):
    """Return what changes the lock's file on the host, as time or another run would; it returns the former one."""
    path = f"{launcher.root}/locks/launches.json"

    def edit(**facts):
        known = json.loads(host.get(path))
        if facts:
            host.put(path, json.dumps({**known, **facts}).encode())
        return known

    return edit


def once(condition):
    for _ in range(3000):
        if condition():
            return
        Event().wait(0.01)
    pytest.fail("it did not come about")


def test_the_second_one_is_told_whose_turn_it_is(lock, launcher):
    with lock("one"):
        with pytest.raises(Locked, match="run one of a@laptop holds this host since 2") as caught, lock("two"):
            pytest.fail("two at once")
        assert f"rm {launcher.root}/locks/launches.json" in caught.value.hint
    with lock("two"):
        pass


def test_locks_of_other_names_are_free(lock):
    with lock("one"), lock("two", name="gpu-1") as second:
        second.require()


def test_a_run_that_was_killed_takes_its_own_lock_again(lock, edit):
    with lock("one"):
        since = edit()["since"]
        with lock("one"):
            assert edit()["since"] == since


def test_of_many_at_once_one_has_it(lock):
    locks = [lock(str(number)) for number in range(12)]

    def take(one):
        try:
            one.__enter__()
        except Locked:
            return False
        return True

    with ThreadPoolExecutor(12) as pool:
        won = [one for one, got in zip(locks, pool.map(take, locks), strict=True) if got]
    assert len(won) == 1
    won[0].__exit__(None, None, None)


@pytest.mark.parametrize("stale", [{"until": 0.0}, {"boot": "another"}])
def test_a_stale_lock_is_free(lock, edit, stale):
    with lock("one"):
        edit(**stale)
        with lock("two"):
            assert edit()["owner"] == "run two of a@laptop"


def test_what_is_no_lock_is_free(lock, launcher, host):
    with lock("one"):
        host.put(f"{launcher.root}/locks/launches.json", b"{")
        with lock("two"):
            pass


def test_the_lease_is_renewed(lock, edit):
    with lock("one", lease=30.0):
        first = edit()["until"]
    with lock("one", lease=0.6) as one:
        begun = edit()["until"]
        once(lambda: edit()["until"] > begun + 1.0)
        one.require()
    assert begun < first


def test_who_lost_the_lock_is_told_and_leaves_it_to_its_holder(lock, edit):
    def lost(one):
        try:
            one.require()
        except Locked as error:
            return "run two of a@laptop" in error.message
        return False

    with lock("one", lease=1.0) as one:
        edit(token="two", owner="run two of a@laptop", until=edit()["until"] + 900)  # noqa: S106 -- no password
        once(lambda: lost(one))
    assert edit()["owner"] == "run two of a@laptop"


def test_a_host_that_is_away_for_a_while_costs_nothing(lock, edit, host, monkeypatch):
    raw, away = host.raw, []

    def gone(*argv, **more):
        away.append(argv)
        raise HostUnavailable("gone")

    with lock("one", lease=1.0) as one:
        monkeypatch.setattr(host, "raw", gone)
        once(lambda: len(away) > 1)
        monkeypatch.setattr(host, "raw", raw)
        begun = edit()["until"]
        once(lambda: edit()["until"] > begun)
        one.require()


def test_a_folder_that_others_may_write_is_refused(lock, launcher, host):
    host.raw(["chmod", "0777", launcher.root])
    with pytest.raises(UserError, match="writable by others"), lock("one"):
        pass
