"""What is known of the host: as much as its tools say, and nothing that they do not."""

import json
import os
import sys
from pathlib import Path

import pytest

SMI = """#!{python}
import os, sys
query = sys.argv[1]
known = {{
    "--query-gpu=uuid,name,driver_version,clocks.sm,clocks.mem,temperature.gpu,power.draw,power.limit,memory.used":
        "GPU-1, NVIDIA H200, 570.1, 1980, 3201, 41, 120.5, 700.00, 512",
    "--query-gpu={throttle}": {mask!r},
    "--query-compute-apps=gpu_uuid,pid,used_memory": "GPU-1, 4242, 400\\nGPU-1, 4343, 100",
    "--query-gpu=memory.used": "512",
}}
if query not in known:
    sys.exit("Field is not a valid field to query.")
print(known[query])
"""


@pytest.fixture
def ask(tmp_path, site_python):
    """Return what facts.py says, with a folder in front of PATH."""

    def ask(ours=(), commands=()):
        words = json.dumps([str(tmp_path), commands, ours])
        code = "import json, sys; sys.path.insert(0, sys.argv[1]); import facts; print(json.dumps("
        found = site_python(code + "facts.facts(*json.loads(sys.argv[2]))))", words, path=f"{tmp_path}:{os.defpath}")
        return found["facts"]

    return ask


def fake_smi(folder, throttle, mask):
    tool = folder / "nvidia-smi"
    tool.write_text(SMI.format(python=sys.executable, throttle=throttle, mask=mask))
    tool.chmod(0o755)


def test_without_a_gpu_and_odd_tools_there_is_the_rest(ask):
    facts = ask(commands=[["echo", "word"], ["/no/such/tool"]])
    assert facts["kernel"] == os.uname().release
    assert facts["cpus"] == os.cpu_count()
    assert facts["disk_free_bytes"] > 0
    assert facts["memory_available_kib"] > 0
    assert facts["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert facts["$ echo word"] == "word"
    assert facts["$ /no/such/tool"] == "(failed)"
    assert not [name for name in facts if name.startswith("gpu")]


@pytest.mark.parametrize(
    ("field", "mask", "says"),
    [
        ("clocks_event_reasons.active", "0x0000000000000000", "none"),
        ("clocks_event_reasons.active", "0x0000000000000001", "none"),
        ("clocks_event_reasons.active", "0x0000000000000024", "power cap + software thermal"),
        ("clocks_throttle_reasons.active", "0x0000000000000008", "hardware slowdown"),
        ("clocks_event_reasons.active", "[N/A]", "[N/A]"),
    ],
)
def test_a_gpu_and_why_it_is_slow(ask, tmp_path, field, mask, says):
    fake_smi(tmp_path, field, mask)
    facts = ask()
    assert dict(zip(facts["gpu_fields"].split(", "), facts["gpus"][0].split(", "), strict=True)) == {
        "uuid": "GPU-1",
        "name": "NVIDIA H200",
        "driver_version": "570.1",
        "clocks.sm": "1980",
        "clocks.mem": "3201",
        "temperature.gpu": "41",
        "power.draw": "120.5",
        "power.limit": "700.00",
        "memory.used": "512",
        "throttle": says,
    }


def test_a_driver_without_throttle_reasons_still_tells_the_rest(ask, tmp_path):
    fake_smi(tmp_path, "something.else", "0x0")
    facts = ask()
    assert facts["gpus"] == ["GPU-1, NVIDIA H200, 570.1, 1980, 3201, 41, 120.5, 700.00, 512"]
    assert not facts["gpu_fields"].endswith("throttle")


def test_others_on_the_gpu_are_listed_and_we_are_not(ask, tmp_path):
    fake_smi(tmp_path, "clocks_event_reasons.active", "0x0")
    assert ask(ours=[4242])["gpu_processes"] == ["GPU-1, 4343, 100"]
    assert "gpu_processes" not in ask(ours=[4242, 4343])
