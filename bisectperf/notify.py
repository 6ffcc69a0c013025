"""Telling the owner of a run who has gone home: through apprise, or through a command of theirs.

What goes wrong here is said and never raised: the run does not depend on it. Addresses hold secrets, so they come
from the environment and stand in no file and no message.
"""

import importlib
import logging
import os
import subprocess
import threading
from collections.abc import Callable

from bisectperf.recipe.schema import Notify

PATIENCE = 30.0
"""Seconds for one way of telling."""


def tell(table: Notify, title: str, text: str) -> list[str]:
    """Send `title` and `text` by every way of the recipe's `[notify]`; return what went wrong, one sentence each."""
    failures = [_sent(name, title, text) for name in table.urls_from]
    if table.command:
        failures.append(_called(table.command, title, text))
    return [words for words in failures if words]


def _called(command: tuple[str, ...], title: str, text: str) -> str:
    """Run the command with two more words, title and text; the text is on its standard input too."""
    try:
        done = subprocess.run(
            [*command, title, text], input=text.encode(), capture_output=True, timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        return f"the notify command {command[0]} failed: {type(error).__name__}"
    return f"the notify command {command[0]} ended with status {done.returncode}" if done.returncode else ""


def _sent(name: str, title: str, text: str) -> str:
    """Send to the apprise address in the variable `name`."""
    address = os.environ.get(name, "")
    if not address:
        return f"the variable {name} of [notify] urls_from is not set"
    try:
        apprise = importlib.import_module("apprise")
    except ImportError:
        return "[notify] urls_from needs apprise: pip install 'bisectperf[notify]', or use [notify] command"
    logging.getLogger("apprise").disabled = True  # its warnings may show parts of an address

    def send() -> bool:
        sender = apprise.Apprise()
        return bool(sender.add(address) and sender.notify(title=title, body=text))

    return "" if _within(send) else f"the address in {name} could not be reached"


def _within(act: Callable[[], bool]) -> bool:
    """Return what `act` says, False where it raises or takes too long."""
    said: list[bool] = []

    def attempt() -> None:
        try:
            said.append(act())
        except Exception:  # noqa: BLE001 -- whatever a plug-in raises, the run goes on
            said.append(False)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return bool(said) and said[0]
