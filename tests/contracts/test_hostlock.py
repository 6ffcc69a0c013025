"""What a lock on a host must do, on every host."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import msgspec
import pytest

from bisectperf.errors import HostUnavailable, Locked, UserError
from bisectperf.hosts.container import ContainerHost
from bisectperf.identity import here
from bisectperf.launchers.base import Job
from bisectperf.launchers.hostlock import HostLock

NOBODY = msgspec.to_builtins(here()) | {"pid": 2**22 + 1}
"""A process of this host and boot that is not there."""


@pytest.fixture
def lock(launcher, host):
    """Return a maker of locks on the host, by the name of their run."""

    def lock(run, **more):
        words = {"owner": f"run {run} of a@laptop", "token": run, "jobs": f"{run}-", "python": launcher.python}
        return HostLock(host, launcher.root, launcher.tools, **{**words, **more})

    return lock


@pytest.fixture
def edit(launcher, host):
    """Return what changes the lock's file on the host, as time or another run would; it returns the former one."""

    def edit(run="one", **facts):
        path = f"{launcher.root}/locks/{run}.json"
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
        with pytest.raises(Locked, match="it is the turn of run one of a@laptop since 2") as caught, lock("two"):
            pytest.fail("two at once")
        assert f"rm {launcher.root}/locks/one.json" in caught.value.hint
    with lock("two"):
        pass


def test_other_gpus_are_free_and_the_whole_host_is_not(lock):
    with lock("one", uses=["0", "1"]):
        with lock("two", uses=["2"]) as second:
            second.require()
        for uses in (["1", "2"], []):
            with pytest.raises(Locked), lock("two", uses=uses):
                pytest.fail("two at once")


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


@pytest.mark.parametrize("stale", [{"until": 0.0}, {"boot": "another"}, {"process": NOBODY}])
def test_a_stale_lock_is_free(lock, edit, stale, host):
    if "process" in stale and isinstance(host, ContainerHost):
        pytest.skip("inside, the pids of the holder say nothing: its lease does")
    with lock("one"):
        edit(**stale)
        with lock("two"):
            assert edit("two")["owner"] == "run two of a@laptop"


def test_what_is_no_lock_is_free(lock, launcher, host):
    with lock("one"):
        host.put(f"{launcher.root}/locks/one.json", b"{")
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


def test_who_lost_the_lock_is_told_and_leaves_it_to_its_holder(lock, edit, launcher, host):
    def lost(one):
        try:
            one.require()
        except Locked as error:
            return "run two of a@laptop" in error.message
        return False

    with lock("one", lease=1.0) as one:
        other = {**edit(), "token": "two", "owner": "run two of a@laptop", "until": edit()["until"] + 900}
        host.put(f"{launcher.root}/locks/two.json", json.dumps(other).encode())
        once(lambda: lost(one))
    assert edit("two")["owner"] == "run two of a@laptop"


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


def test_a_stale_lock_holds_while_a_launch_of_its_holder_runs(lock, edit, launcher):
    with lock("one"):
        launcher.start(Job(id="one-L0001", argv=("sleep", "100")))
        edit(process=NOBODY, until=0.0)
        with pytest.raises(Locked) as caught, lock("two"):
            pytest.fail("two at once")
        assert "its launch one-L0001 still runs" in caught.value.hint
        launcher.kill("one-L0001")
        with lock("two"):
            pass
