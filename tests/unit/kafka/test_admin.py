"""What the client library answers that is no answer."""

# librdkafka names its local error codes with a leading underscore
# pyright: reportPrivateUsage=false

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka import KafkaException as ClientException

from headrace.errors import AuthorizationException, MissingSourceTopicException, TimeoutException
from headrace.kafka import NewTopic, TopicAdmin
from headrace.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOG = TopicPartition("changelog", 3)
INVALID = -1001


class _Client:
    """Gives the same offset for everything, without an error."""

    def __init__(self, offset: int | ClientException, *topics: str) -> None:
        self._offset = offset
        self._topics = dict.fromkeys(topics)
        self.looked_up = 0

    def list_offsets(self, wanted: dict[Any, Any], **_: Any) -> dict[Any, Future[Any]]:
        answer: Future[Any] = Future()
        if isinstance(self._offset, int):
            answer.set_result(SimpleNamespace(offset=self._offset))
        else:
            answer.set_exception(self._offset)
        return dict.fromkeys(wanted, answer)

    def list_topics(self, **_: Any) -> SimpleNamespace:
        self.looked_up += 1
        return SimpleNamespace(topics=self._topics)

    def poll(self, _: float) -> None:
        """Has no events."""


@pytest.fixture
def admin() -> Iterator[TopicAdmin]:
    made = TopicAdmin({"bootstrap.servers": "127.0.0.1:1"})
    yield made
    made.close()


@pytest.mark.parametrize(("spec", "offset"), [("earliest", INVALID), ("latest", INVALID), ("latest", -1), (5, INVALID)])
def test_an_offset_that_is_none_is_no_answer(
    admin: TopicAdmin, monkeypatch: pytest.MonkeyPatch, spec: Any, offset: int
) -> None:
    """After a leader change the end was -1001: a restore ended at once, with an empty store, or dropped a full one."""
    client = _Client(offset)
    monkeypatch.setattr(admin, "_client", client)
    with pytest.raises(TimeoutException, match="changelog-3: the brokers gave none"):
        admin.list_offsets([LOG], spec)
    assert client.looked_up == 1


@pytest.mark.parametrize(("topics", "error"), [(["changelog"], TimeoutException), ([], MissingSourceTopicException)])
def test_who_leads_is_looked_up_again_when_the_client_knows_none(
    topics: list[str], error: type[Exception], admin: TopicAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client whose leader was away never asked for another one, and called the topic missing."""
    client = _Client(ClientException(KafkaError(KafkaError._NOENT, "No leaders found")), *topics)
    monkeypatch.setattr(admin, "_client", client)
    with pytest.raises(error):
        admin.list_offsets([LOG], "latest")
    assert client.looked_up == 1


class _ForgottenController:
    """Waits for a controller that is away until somebody has it look for another; topics are described by that one."""

    def __init__(self) -> None:
        self.known = False
        self.looking: list[float] = []
        self.named: list[int] = []
        self.asked: list[str] = []

    def _answer(self, call: str, result: object) -> Future[Any]:
        self.asked.append(call)
        answer: Future[Any] = Future()
        if self.known:
            answer.set_result(result)
        else:
            answer.set_exception(ClientException(KafkaError(KafkaError._TIMED_OUT, "Timed out waiting for controller")))
        return answer

    def describe_cluster(self, **_: Any) -> Future[Any]:
        return self._answer("describe_cluster", SimpleNamespace(nodes=[], controller=SimpleNamespace(id=1)))

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, Future[Any]]:
        return {"in": self._answer("describe_topics", SimpleNamespace(topic_id="id", partitions=[1, 2]))}

    def create_topics(self, topics: list[Any], **_: Any) -> dict[str, Future[Any]]:
        return {"in": self._answer("create_topics", None)}

    def delete_topics(self, topics: list[str], **_: Any) -> dict[str, Future[Any]]:
        return {"in": self._answer("delete_topics", None)}

    def describe_configs(self, resources: list[Any], **_: Any) -> dict[Any, Future[Any]]:
        return {resources[0]: self._answer("describe_configs", {})}

    def list_topics(self, *, timeout: float) -> SimpleNamespace:
        self.looking.append(timeout)
        self.known = True
        return SimpleNamespace(topics={})

    def poll(self, _: float) -> None:
        """Has no events."""


@pytest.mark.parametrize(
    ("ask", "answer", "call"),
    [
        (lambda admin: admin.partition_counts(["in"]), {"in": 2}, "describe_topics"),
        (lambda admin: admin.topic_ids(["in"]), {"in": "id"}, "describe_topics"),
        (lambda admin: admin.topic_configs(["in"]), {"in": {}}, "describe_configs"),
        (lambda admin: admin.create_topics([NewTopic("in", 2)]), frozenset(), "create_topics"),
        (lambda admin: admin.delete_topics(["in"]), frozenset(), "delete_topics"),
    ],
)
def test_another_controller_is_looked_for_when_the_one_remembered_is_away(
    ask: Callable[[TopicAdmin], object],
    answer: object,
    call: str,
    admin: TopicAdmin,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client whose controller had died waited for it with every request, until its metadata aged."""
    client = _ForgottenController()
    monkeypatch.setattr(admin, "_client", client)
    assert ask(admin) == answer
    # the last one is answered by the broker that the one before has named
    assert client.asked[:4] == ["describe_cluster"] * 3 + [call]


def test_a_controller_that_is_named_has_to_answer_itself(admin: TopicAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer could name the one that had just died, and the request after it waited for that."""

    class Naming(_ForgottenController):
        def describe_cluster(self, **_: Any) -> Future[Any]:
            # who is asked is the one that was named last; 2 is dead
            self.known = self.named[-1] != 2
            if self.known:
                self.named.append(next(names))
            return self._answer("describe_cluster", SimpleNamespace(controller=SimpleNamespace(id=self.named[-1])))

        def list_topics(self, *, timeout: float) -> SimpleNamespace:
            self.named.append(next(names))
            return super().list_topics(timeout=timeout)

    names = iter([2, 2, 3, 1, 3, 1])
    client = Naming()
    client.named = [1]
    monkeypatch.setattr(admin, "_client", client)
    assert admin.partition_counts(["in"]) == {"in": 2}
    assert client.named == [1, 2, 2, 3, 1, 3, 1]


def test_brokers_that_name_no_controller_yet_are_asked_again(
    admin: TopicAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does that has just started, and takes nobody for alive."""

    class Starting(_ForgottenController):
        def describe_cluster(self, **_: Any) -> Future[Any]:
            return self._answer("describe_cluster", SimpleNamespace(controller=next(named)))

    named = iter([None, None, SimpleNamespace(id=1), SimpleNamespace(id=1)])
    client = Starting()
    client.known = True
    monkeypatch.setattr(admin, "_client", client)
    assert admin.partition_counts(["in"]) == {"in": 2}
    assert next(named, "all were given") == "all were given"


def test_brokers_that_refuse_entry_are_told_from_a_controller_that_is_away(
    admin: TopicAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal that came after the first second was passed over, and the call waited for its time to be up."""

    class Refusing(_ForgottenController):
        def list_topics(self, *, timeout: float) -> SimpleNamespace:
            self.looking.append(timeout)
            admin._on_client_error(KafkaError(KafkaError._AUTHENTICATION, "no such user"))
            raise ClientException(KafkaError(KafkaError._TRANSPORT))

    client = Refusing()
    monkeypatch.setattr(admin, "_client", client)
    with pytest.raises(AuthorizationException, match="no such user"):
        admin.partition_counts(["in"])
    assert client.looking == [1.0]


def test_nobody_answers_in_the_time_of_a_call(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is also said once while the call goes on."""

    class Away(_ForgottenController):
        def list_topics(self, *, timeout: float) -> SimpleNamespace:
            self.looking.append(timeout)
            now.append(now[-1] + timeout)
            raise ClientException(KafkaError(KafkaError._TRANSPORT))

        def describe_cluster(self, **options: Any) -> Future[Any]:
            now.append(now[-1] + options["request_timeout"])
            return super().describe_cluster()

    now = [0.0]
    admin = TopicAdmin({"bootstrap.servers": "127.0.0.1:1"}, timeout_ms=10_000)
    monkeypatch.setattr(admin, "_client", Away())
    monkeypatch.setattr("headrace.kafka.admin.time", SimpleNamespace(monotonic=lambda: now[-1], sleep=lambda _: None))
    with pytest.raises(TimeoutException, match="asking the controller"):
        admin.partition_counts(["in"])
    assert now == [0.0, 1.0, 2.0, 4.0, 6.0, 10.0]
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert told.startswith("asking the controller")
    assert told.endswith("start the brokers")
    admin.close()


def test_no_record_is_that_young(admin: TopicAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "_client", _Client(-1))
    assert admin.list_offsets([LOG], 5) == {LOG: -1}
