"""Every store test runs on a local folder and on S3 (moto's server, in this process)."""

import logging
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from rl_assets.store.journal import Journal
from rl_assets.store.objects import ObjectStore


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/bucket", method="PUT")).close()
    yield endpoint
    server.stop()


@pytest.fixture
def s3_url(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A prefix of the test's own, with the settings to reach it in the environment, as a user would set them."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    return f"s3://bucket/{uuid.uuid4().hex}"


@pytest.fixture(params=["local", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return request.getfixturevalue("s3_url") if request.param == "s3" else str(tmp_path / "store")


@pytest.fixture
def store(url: str) -> ObjectStore:
    return ObjectStore(url)


@pytest.fixture
def journal(store: ObjectStore) -> Iterator[Journal]:
    journal = Journal(store)
    yield journal
    journal.close()
