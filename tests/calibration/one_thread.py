"""One thread a night: the nights themselves are what runs in parallel. Imported before numpy."""

import os

NAMES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
for _name in NAMES:
    os.environ[_name] = "1"
