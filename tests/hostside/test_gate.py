"""A launch waits for a fit host, and does not count where the host was not fit."""

import json
import os
import shutil
import subprocess
import sys
import threading

import pytest

GATE = {
    "wait": 0.5,
    "devices": [],
    "ignore": ["monitor"],
    "memory_mib": 1024.0,
    "throttle": ["hardware slowdown", "software thermal", "hardware thermal", "power brake"],
    "clock_band": 0.05,
    "temperature_band": 10.0,
    "cpu_busy": 1.0,
    "disk_free_gib": 0.0,
    "clock_step": 1.0,
    "reference": {},
}
BAND = {"clock": [1900.0, 1980.0], "temperature": [60.0, 65.0], "memory": 10.0}
PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable


@pytest.fixture
def launch(site, smi, monkeypatch):
    """Run a launch without a server under the scripted nvidia-smi; its benchmark runs `during` and prints 7."""
    monkeypatch.setenv("PATH", f"{smi.folder}:/usr/bin:/bin")

    def launch(during="", reference=None, **gate):
        bench = {"argv": ["sh", "-c", f"{during}\necho 7"], "regex": "(7)", "warmup": 0, "repetitions": 1}
        about = {"packages": [], "import_root": ""}
        return site.launch(
            server=None, bench=bench, environment=about, gate=GATE | gate | {"reference": reference or {}}
        )

    return launch


def says(smi, *processes, **changes):
    """Return shell lines after which the scripted tool says this."""
    before = smi.state.read_text()
    smi.say(*processes, **changes)
    after = smi.state.read_text()
    smi.state.write_text(before)
    return f"cat > {smi.state} <<'END'\n{after}\nEND\n"


def test_a_fit_host_is_not_waited_for(launch):
    result = launch()
    assert result["outcome"] == "measured", result["detail"]
    assert result["gate"]["waited"] == 0.0
    assert not [text for text in result["gate"]["not_asked"] if "memory" in text]


@pytest.mark.parametrize(
    ("processes", "changes", "said"),
    [
        ([(4242, "python3")], {}, "process 4242 (python3) of somebody else is on GPU 0"),
        ([], {"memory__used": 9000}, "9000 MiB are held on GPU 0 before the launch (limit 1024)"),
        ([], {"clocks_event_reasons__active": "0x48"}, "GPU 0 is slowed down (hardware slowdown, hardware thermal)"),
        ([], {"temperature__gpu": 80}, "GPU 0 is at 80 C before the launch (limit 75)"),
    ],
)
def test_an_unfit_host_is_waited_for_up_to_the_limit(launch, smi, processes, changes, said):
    smi.say(*processes, **changes)
    result = launch(during="touch ran", reference={"GPU-1": {"temperature": [60.0, 65.0]}})
    assert result["outcome"] == "unfit"
    assert said in result["detail"]
    assert result["samples"] is None
    assert "bench" not in result["seconds"], "it was launched all the same"


def test_it_goes_on_once_the_host_is_fit(launch, smi, site):
    smi.say((4242, "python3"))

    def leave():
        while not any("waiting for the host" in p.read_text() for p in site.root.glob("job-*/progress")):
            threading.Event().wait(0.01)
        smi.say()

    leaving = threading.Thread(target=leave)
    leaving.start()
    result = launch(wait=60.0)
    leaving.join()
    assert result["outcome"] == "measured"
    assert result["gate"]["waited"] > 0
    assert result["gate"]["reasons"] == ["process 4242 (python3) of somebody else is on GPU 0"]


def test_memory_is_held_against_what_the_ends_saw(launch, smi):
    smi.say(memory__used=900)
    assert launch()["outcome"] == "measured"
    assert "900 MiB are held" in launch(reference={"GPU-1": BAND})["detail"]


def test_what_may_be_on_the_gpu_is_no_reason(launch, smi):
    smi.say((4242, "/usr/bin/monitor"), clocks_event_reasons__active="0x4")
    assert launch()["outcome"] == "measured"


@pytest.mark.parametrize(
    ("processes", "changes", "said"),
    [
        ([(4242, "python3")], {}, "process 4242 (python3)"),
        ([], {"clocks_event_reasons__active": "0x40"}, "slowed down (hardware thermal)"),
        ([], {"clocks_event_reasons_counters.sw_thermal_slowdown": 12}, "slowed down (software thermal)"),
        ([], {"clocks__sm": 1200}, "the clock of GPU 0 is 1200 MHz, out of the band of the ends (1805 to 2079)"),
        ([], {"temperature__gpu": 90}, "the temperature of GPU 0 is 90 C, out of the band of the ends (50 to 75)"),
    ],
)
def test_what_breaks_the_peace_during_the_benchmark_voids_the_launch(launch, smi, processes, changes, said):
    smi.say(temperature__gpu=60)
    result = launch(during=says(smi, *processes, **{"temperature__gpu": 60, **changes}), reference={"GPU-1": BAND})
    assert result["outcome"] == "unfit"
    assert result["detail"].startswith("the gate broke: ")
    assert said in result["detail"]
    assert result["samples"] is None


def test_a_benchmark_that_fails_beside_a_foreign_process_says_nothing_of_the_commit(launch, smi):
    result = launch(during=says(smi, (4242, "python3")) + "exit 3")
    assert result["outcome"] == "unfit"


def test_clocks_of_a_benchmark_that_failed_are_not_judged(launch, smi):
    result = launch(during=says(smi, clocks__sm=210) + "exit 3", reference={"GPU-1": BAND})
    assert result["outcome"] == "bench-failed"


def test_only_the_gpus_of_the_launch_are_looked_at(launch, smi):
    smi.say((4242, "python3"))
    assert launch(devices=["0"])["outcome"] == "unfit"
    result = launch(devices=["3"])
    assert result["outcome"] == "measured"
    assert "no GPU is called 3" in result["gate"]["not_asked"][0]


def test_a_host_without_the_tools_says_what_was_not_asked(launch, smi):
    (smi.folder / "nvidia-smi").unlink()
    result = launch()
    assert result["outcome"] == "measured"
    words = "GPU (processes, memory, throttling, clocks, temperature): neither nvidia-smi nor rocm-smi answers here"
    assert result["facts"][0]["facts"]["gate, not asked"] == [words]


ROCM = """#!/bin/sh
case "$*" in
    *showpids*) echo '{"system": {"PID77": "python3, 1, 900, 0, 0", "PID78": "none, 0, 0, 0, 0"}}';;
    *) echo '{"card0": {"Unique ID": "0x7", "VRAM Total Used Memory (B)": "3221225472",
        "Temperature (Sensor junction) (C)": "51.0"}, "system": {"Driver version": "6.2.4"}}';;
esac
"""


def test_rocm_smi_is_asked_where_there_is_no_nvidia_smi(launch, smi):
    (smi.folder / "nvidia-smi").unlink()
    (smi.folder / "rocm-smi").write_text(ROCM)
    (smi.folder / "rocm-smi").chmod(0o755)
    detail = launch()["detail"]
    assert "process 77 (python3) of somebody else" in detail
    assert "process 78" not in detail
    assert "3072 MiB are held on GPU 0" in detail


def test_too_little_disk(launch):
    result = launch(disk_free_gib=1e9)
    assert "GiB are free on our disk (limit 1e+09)" in result["detail"]


def test_others_on_the_cpus(launch):
    """As many busy processes as there are CPUs, and nobody may keep a hundredth of them busy."""
    spin = [subprocess.Popen([PYTHON, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        result = launch(cpu_busy=0.01)
    finally:
        for process in spin:
            process.kill()
            process.wait()
    assert "% of the CPUs busy before the launch (limit 1 %)" in result["detail"]


def test_our_own_work_on_the_cpus_is_not_held_against_us(site, site_python):
    code = """
import json, subprocess, sys
sys.path.insert(0, sys.argv[1])
from gate import cpu_ticks
before = cpu_ticks("none")
subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.5: pass"], check=True)
after = cpu_ticks("none")
print(json.dumps([after[0] - before[0], after[2] - before[2]]))
"""
    busy, own = site_python(code, path="/usr/bin:/bin")
    assert 45 <= own <= busy + 5


def test_a_clock_that_is_set_voids_the_launch(site_python):
    """The clock of this machine is not ours to set: it is the process's own view of it that jumps."""
    code = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import gate
from failure import Failed
spec = dict(json.loads(sys.argv[2]), clock_step=1.0)
made = gate.Gate(spec, "none", print)
real = time.time
time.time = lambda: real() - 3600
try:
    made.check(True)
except Failed as failed:
    print(json.dumps([failed.outcome, str(failed)]))
"""
    outcome, said = site_python(code, json.dumps(GATE), path="/usr/bin:/bin")
    assert outcome == "unfit"
    assert "the clock of the host moved by -3600.0 s during the launch" in said


def test_a_host_that_moved_since_the_ends_is_not_measured(launch):
    known = {"facts": {"kernel": "5.4.0-1", "driver": "580.159.04", "package torch": "2.9.1 (pip)"}}
    result = launch(reference=known)
    assert result["outcome"] == "moved"
    assert f"kernel: 5.4.0-1 at the ends, now {os.uname().release}" in result["detail"]
    assert "package torch: 2.9.1 (pip) at the ends, now absent" in result["detail"]
    assert "driver" not in result["detail"]
