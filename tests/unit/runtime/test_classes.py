from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # read by the classes below
from typing import Any

import pytest

from headrace.api.handlers import DefaultProductionExceptionHandler, LogAndContinueExceptionHandler
from headrace.config import StreamsConfig
from headrace.config.loading import load
from headrace.errors import ConfigException
from headrace.runtime.classes import engine_settings, instance
from headrace.serdes import Serde, Serdes
from headrace.serdes.primitives import StringDeserializer, StringSerializer

KEY = StreamsConfig.DESERIALIZATION_EXCEPTION_HANDLER_CLASS_CONFIG


class Configured:
    def __init__(self) -> None:
        self.configs: Mapping[str, Any] | None = None

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.configs = configs

    class Inner:
        pass


class OwnSerde(Serde[str]):
    def __init__(self) -> None:
        super().__init__(StringSerializer(), StringDeserializer())
        self.told: list[tuple[Any, bool]] = []

    def configure(self, configs: Mapping[str, Any], *, is_key: bool) -> None:
        self.told.append((configs["own.setting"], is_key))


class Demanding:
    def __init__(self, what: str) -> None:
        self.what = what


def config(**settings: Any) -> StreamsConfig:
    return StreamsConfig.load(
        {
            "application.id": "app",
            "bootstrap.servers": "localhost:1",
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
    )


def test_load_takes_names_classes_and_objects() -> None:
    assert load(f"{__name__}:Configured", "k").__name__ == "Configured"
    assert load(f"{__name__}:Configured.Inner", "k").__name__ == "Inner"
    assert load(Configured, "k") is Configured
    made = Configured()
    assert load(made, "k") is made


@pytest.mark.parametrize("text", ["nothing", ":x", "module:", ""])
def test_a_name_of_another_form(text: str) -> None:
    with pytest.raises(ConfigException, match=f"some.key: '{text}' is not of the form module:attribute"):
        load(text, "some.key")


@pytest.mark.parametrize("text", ["no_such_module_here:X", f"{__name__}:Missing", f"{__name__}:Configured.Missing"])
def test_a_name_that_leads_nowhere(text: str) -> None:
    with pytest.raises(ConfigException, match=r"some.key: .* cannot be loaded") as caught:
        load(text, "some.key")
    assert isinstance(caught.value.__cause__, (ImportError, AttributeError))


def test_instances_are_made_and_configured() -> None:
    found = instance(config(deserialization_exception_handler=f"{__name__}:Configured", own_setting="1"), KEY)
    assert found.configs["own.setting"] == "1"
    assert type(instance(config(deserialization_exception_handler=Configured), KEY)) is Configured
    ready = Configured()
    assert instance(config(deserialization_exception_handler=ready), KEY) is ready
    assert ready.configs is not None
    assert instance(config(), StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG) is None


def test_a_class_that_needs_arguments_is_told() -> None:
    with pytest.raises(ConfigException, match="cannot be made without arguments"):
        instance(config(deserialization_exception_handler=Demanding), KEY)


def test_serdes_are_told_which_half_they_are() -> None:
    found = engine_settings(
        config(default_key_serde=OwnSerde, default_value_serde=OwnSerde(), own_setting="x"), lambda: 5, lambda: 6
    )
    assert isinstance(found.default_key_serde, OwnSerde)
    assert isinstance(found.default_value_serde, OwnSerde)
    assert found.default_key_serde.told == [("x", True)]
    assert found.default_value_serde.told == [("x", False)]


def test_engine_settings_come_from_the_configuration() -> None:
    text = Serdes.String()
    found = engine_settings(
        config(
            default_key_serde=text,
            deserialization_exception_handler="headrace:LogAndContinueExceptionHandler",
            max_task_idle_ms=7,
            buffered_records_per_partition=3,
            statestore_uncommitted_max_bytes=9,
        ),
        lambda: 5,
        lambda: 6,
    )
    assert found.application_id == "app"
    assert found.default_key_serde is text
    assert found.default_value_serde is None
    assert isinstance(found.deserialization_handler, LogAndContinueExceptionHandler)
    assert isinstance(found.production_handler, DefaultProductionExceptionHandler)
    assert (found.max_task_idle_ms, found.buffered_records_per_partition, found.uncommitted_max_bytes) == (7, 3, 9)
    assert (found.system_time_ms(), found.steady_time_ms()) == (5, 6)
    assert found.app_configs["application.id"] == "app"


def test_javas_names_are_understood() -> None:
    java = "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler"
    found = instance(config(deserialization_exception_handler=java), KEY)
    assert isinstance(found, LogAndContinueExceptionHandler)


def test_the_class_of_a_serde_as_a_default() -> None:
    with pytest.raises(ConfigException, match=r"^default\.value\.serde has the value .*, which is no serde: call it$"):
        engine_settings(config(default_value_serde=Serdes.String), lambda: 0, lambda: 0)
