"""Functions of librdkafka that confluent-kafka does not have, called by ``ctypes`` on the clients that it has made.

What it stands on, with confluent-kafka pinned to one release and tests on real brokers of what is called:

* the symbols of librdkafka are found through confluent-kafka's extension module, which is linked to it;
* a client object begins, behind its object header, with the pointer to librdkafka's handle (``Handle`` of
  ``confluent_kafka.h``, the first field since its first release).
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, Producer, cimpl
from confluent_kafka.admin import AdminClient

if TYPE_CHECKING:
    from collections.abc import Callable

_library: Final = ctypes.CDLL(cimpl.__file__)


def function(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """A function of librdkafka, with its ``ctypes`` result and arguments."""
    found = _library[name]
    found.restype = result
    found.argtypes = arguments
    return found


_add_brokers = function("rd_kafka_brokers_add", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)


def handle(client: object) -> ctypes.c_void_p:
    """The handle that librdkafka knows an open client of confluent-kafka by."""
    return ctypes.c_void_p.from_address(id(client) + object.__basicsize__)


def add_brokers(client: object, servers: str) -> None:
    """Have a client try these servers too, as it does with ``bootstrap.servers``. Those it knows change nothing.

    May be called from the client's own callbacks; does nothing to a client that is closed.
    """
    if isinstance(client, (Consumer, Producer, AdminClient)) and (pointer := handle(client)).value:
        _add_brokers(pointer, servers.encode())
