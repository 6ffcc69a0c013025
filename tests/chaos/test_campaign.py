"""A few nights of the campaign that `make chaos` runs."""

import subprocess
import sys
from pathlib import Path


def test_a_few_nights_end_as_they_would_have(tmp_path):
    argv = [sys.executable, str(Path(__file__).with_name("campaign.py")), "--nights", "3", "--seed", "7"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env={"TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wrong 0; journalled launches lost 0, launches run twice 0" in done.stdout
