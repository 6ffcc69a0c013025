"""A store of ours for the repository under test."""

import pytest

from bisectperf.repo import Repository, Store


@pytest.fixture(autouse=True)
def _alone(own_home):
    pass


@pytest.fixture
def open_store(history):
    """Open the repository and its store."""

    def opened():
        repository = Repository.open(str(history.folder))
        return repository, Store.of(repository, repository.state_folder / "store")

    return opened
