"""A session is made once for each environment."""

from __future__ import annotations

from flowguard.sim.account import environment, isolated, session_here


def test_blocks_with_an_equal_environment_share_a_session_and_no_clients() -> None:
    with environment(isolated("eu-north-1")):
        first = session_here()
    with environment(isolated("eu-north-1")):
        assert session_here() is first
        assert first.client("sqs") is not first.client("sqs")


def test_another_environment_has_a_session_of_its_own() -> None:
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    with environment(isolated("eu-north-1") | keys):
        north = session_here()
        assert north.client("sqs").meta.region_name == "eu-north-1"
    with environment(isolated("eu-south-1") | keys):
        assert session_here() is not north
        assert session_here().client("sqs").meta.region_name == "eu-south-1"
    with environment(isolated("eu-north-1") | keys | {"AWS_ACCESS_KEY_ID": "other"}):
        credentials = session_here().get_credentials()
        assert credentials is not None
        assert credentials.access_key == "other"
