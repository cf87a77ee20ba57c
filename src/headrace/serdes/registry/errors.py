"""What can go wrong with a registry; the class says who has to do something.

=================================  ==================================================================
class                              meaning
=================================  ==================================================================
RegistryUnavailableException       it does not answer: the record waits, the engine tries again
RegistryAuthorizationException     it refuses us: fix the credentials; the record is not to blame
RegistryException                  it answered "no": the serde says what that means for the record
=================================  ==================================================================
"""

from __future__ import annotations

from headrace.errors import AuthorizationException, KafkaException, TimeoutException


class RegistryUnavailableException(TimeoutException):
    """No registry answered, or all say that they cannot at the moment. The same request may work later."""


class RegistryAuthorizationException(AuthorizationException):
    """The registry does not let us in, or not do this (HTTP status 401 or 403)."""


class RegistryException(KafkaException):
    """The registry answered with an error.

    Attributes:
        status: HTTP status.
        error_code: Confluent's error code, such as 40403 for an unknown id; -1 where there is none.
    """

    def __init__(self, message: str, status: int, error_code: int) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code
