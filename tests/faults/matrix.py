"""Write docs/faults.md from matrix.toml."""

import tomllib
from pathlib import Path

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs" / "faults.md"
HEAD = """# Faults

What a night survives. Each row is injected by the test that it names; a hundred short nights with random faults are
`make chaos`. Lost evidence is measured again and never counts as good or bad.

| fault | phase | what happens | what is lost | test | other phases |
|---|---|---|---|---|---|
"""


def faults():
    """Return the rows of the matrix."""
    return tomllib.loads((HERE / "matrix.toml").read_text())["fault"]


def table():
    """Return the page."""
    rows = [
        f"| {f['fault']} | {f['phase']} | {f['happens']} | {f['lost']} | `{f['test']}` | {f['elsewhere']} |"
        for f in faults()
    ]
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    DOCS.write_text(table())
