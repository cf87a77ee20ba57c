"""Who runs which task: the pure part of the classic group protocol.

``sticky`` decides, ``wire`` is what members tell the leader and the leader tells them, ``assignor`` joins both into
the function that the membership calls when this member is the leader. Nothing here knows a client or a clock.
"""

from __future__ import annotations

from headrace.assignment.assignor import GroupMember, MemberAssignment, TaskAssignor
from headrace.assignment.sticky import MemberState, assign, cooperative, owners
from headrace.assignment.wire import (
    AssignmentError,
    AssignmentInfo,
    MemberRequest,
    SubscriptionInfo,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

__all__ = [
    "AssignmentError",
    "AssignmentInfo",
    "GroupMember",
    "MemberAssignment",
    "MemberRequest",
    "MemberState",
    "SubscriptionInfo",
    "TaskAssignor",
    "assign",
    "cooperative",
    "decode_assignment",
    "decode_subscription",
    "encode_assignment",
    "encode_subscription",
    "owners",
]
