"""The HTTP port of an application: metrics for Prometheus, whether it lives and is ready, what its tasks do.

``observed`` is what the port shows, ``server`` the port, ``client`` asks a port of this machine, ``prometheus`` the one
module that knows prometheus-client, which is loaded only when metrics are asked for. Nothing here knows the runtime:
the client of an application and the supervisor of several each are an :class:`~headrace.http.observed.Observed`.
"""

from headrace.http.observed import Observed
from headrace.http.server import Address, HttpServer, configured_address

__all__ = ["Address", "HttpServer", "Observed", "configured_address"]
