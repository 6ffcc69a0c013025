"""The scripts run under whatever python3 a host has, from 3.8 on."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HOSTSIDE = Path(__file__).parents[2] / "bisectperf" / "hostside"
OLDEST = (3, 8)


def interpreters():
    """Return every python3 of this machine that is new enough, one a version: PATH's, the system's, pyenv's."""
    names = [f"python3.{minor}" for minor in range(OLDEST[1], 20)]
    found = [sys.executable, *filter(None, map(shutil.which, names))]
    found += map(str, Path("~/.pyenv/versions").expanduser().glob("3.*/bin/python3"))
    versions = {}
    for path in found:
        code = "import sys; print(*sys.version_info[:2])"
        done = subprocess.run([path, "-c", code], capture_output=True, check=False, env={})
        if done.returncode == 0 and (version := tuple(map(int, done.stdout.split()))) >= OLDEST:
            versions.setdefault(version, path)
    return [pytest.param(path, id=f"{a}.{b}") for (a, b), path in sorted(versions.items())]


@pytest.mark.parametrize("python", interpreters())
def test_a_launch(site, python):
    """The server runs under it too, so the recorder does."""
    server = {"argv": [python, "-m", "engine.serve", "{port}"]}
    result = site.launch(python=python, server=server)
    assert result["outcome"] == "measured", result["detail"]
    assert result["origin"]["problems"] == []


@pytest.mark.parametrize("script", sorted(p.name for p in HOSTSIDE.glob("*.py")))
def test_no_script_uses_what_the_oldest_lacks(script):
    """Syntax alone, where the oldest interpreter is not at hand."""
    code = "import ast, sys; ast.parse(open(sys.argv[1]).read(), feature_version=(3, 8))"
    subprocess.run([sys.executable, "-c", code, str(HOSTSIDE / script)], check=True)


def has_own_mounts():
    try:
        argv = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
        return subprocess.run(argv, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not has_own_mounts(), reason="needs `unshare -rm` to make a small disk")
def test_a_full_disk_voids_the_launch_and_the_result_is_written(site):
    """What a benchmark does on a full disk says nothing about the commit."""
    fill = "dd if=/dev/zero of=fill bs=64k 2>/dev/null; exit 1"
    bench = {"argv": ["sh", "-c", fill], "cwd": "{job}"}
    result = site.launch(
        server=None,
        bench=bench,
        environment={"import_root": "", "packages": []},
        inside=["unshare", "-rm", "sh", "-c", SMALL_DISK, "sh"],
    )
    assert result["outcome"] == "disk-full"
    assert [p["when"] for p in result["proofs"]] == ["before", "after"]


SMALL_DISK = """
set -e
job=$PWD
mkdir ../small
mount -t tmpfs -o size=2m none ../small
cp spec.json ../small
cd ../small
"$@"
cp result.json "$job"
"""
