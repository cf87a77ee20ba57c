"""What a principal has to be allowed, in the words of Kafka's tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Acl(NamedTuple):
    """One permission that a request needs.

    Attributes:
        operation: Kafka's name, such as ``Read`` or ``DescribeConfigs``.
        resource: Its type, as the option of ``kafka-acls`` is called.
        name: The resource's; empty for the cluster, which has none.
    """

    operation: str
    resource: Literal["topic", "group", "transactional-id", "cluster"]
    name: str = ""

    def __str__(self) -> str:
        return f"{self.operation} on {self.resource.replace('-', ' ')} {self.name}".rstrip()


def reading(topic: str) -> tuple[Acl, ...]:
    """For reading a topic."""
    return (Acl("Read", "topic", topic),)


def writing(topics: Iterable[str], transactional_id: str | None) -> tuple[Acl, ...]:
    """For sending records, in transactions of this id if there is one."""
    needed = [Acl("Write", "topic", topic) for topic in topics]
    if transactional_id is not None:
        needed.append(Acl("Write", "transactional-id", transactional_id))
    return (*needed, Acl("IdempotentWrite", "cluster"))


def missing(needed: Iterable[Acl]) -> str:
    """A sentence that names the permissions and the command that gives them."""
    acls = list(needed)
    options = " ".join(
        f"--operation {acl.operation} --{acl.resource}{' ' + acl.name if acl.name else ''}" for acl in acls[:1]
    )
    more = f", and likewise {', '.join(map(str, acls[1:]))}" if acls[1:] else ""
    if acls[0].operation == "Describe":
        more += " (Read or Write, where it is needed anyway, grants Describe too)"
    return (
        f"the principal lacks {' or '.join(map(str, acls))}: kafka-acls --bootstrap-server HOST:PORT --add "
        f"--allow-principal User:NAME {options}{more}"
    )
