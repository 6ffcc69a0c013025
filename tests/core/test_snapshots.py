"""Two snapshots, likeliest cause first."""

from bisectperf.snapshots import differences


def test_what_bounds_the_gpu_comes_before_what_is_merely_installed():
    before = {"package click": "8.1", "gpu 0 power limit": "700.00", "driver": "580", "kernel": "6.1", "same": "x"}
    after = {"package click": "8.2", "gpu 0 power limit": "400.00", "driver": "590", "kernel": "6.2", "same": "x"}
    found = differences(before, after)
    assert [x.name for x in found] == ["gpu 0 power limit", "driver", "kernel", "package click"]
    assert str(found[0]) == "gpu 0 power limit: 700.00 -> 400.00 (bounds the clocks under load)"


def test_a_fact_that_one_side_lacks_is_a_difference():
    (found,) = differences({}, {"variable NCCL_ALGO": "Ring"})
    assert str(found) == "variable NCCL_ALGO: absent -> Ring (steers the libraries)"
