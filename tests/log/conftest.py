import pytest


@pytest.fixture(params=["parquet", "arrow", "csv"])
def ending(request):
    """A format that logs are read from and written to, by the ending of its files."""
    return request.param
