import os

import pytest

from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.description import Apartment


@pytest.fixture(scope="session")
def apartment(tmp_path_factory: pytest.TempPathFactory) -> Apartment:
    """The apartment, its furniture built by the library and not read from the user's cache."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    try:
        return load_apartment()
    finally:
        if before is None:
            del os.environ["XDG_CACHE_HOME"]
        else:
            os.environ["XDG_CACHE_HOME"] = before
