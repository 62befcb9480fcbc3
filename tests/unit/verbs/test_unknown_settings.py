"""Where the settings of topics may be found."""

from __future__ import annotations

from winnow.verbs.doctor.unknown_settings import give_settings

NEARBY = ["/etc/kafka/server.properties"]


def test_properties_file_of_the_running_broker_replaces_the_default_files() -> None:
    advice = give_settings(
        ["a"], have_broker_file=False, zookeeper=False, nearby=NEARBY, started_with="/b.properties"
    )
    assert advice.why.endswith(" The running broker was started with /b.properties.")
    assert NEARBY[0] not in advice.why


def test_default_properties_files_are_suggested_without_a_running_broker() -> None:
    advice = give_settings(["a"], have_broker_file=False, zookeeper=False, nearby=NEARBY)
    assert advice.why.endswith(f" On this machine: {NEARBY[0]}.")


def test_no_file_is_named_if_one_was_given() -> None:
    advice = give_settings(
        ["a"], have_broker_file=True, zookeeper=False, nearby=NEARBY, started_with="/b.properties"
    )
    assert "properties" not in advice.why.replace("server.properties", "")
