"""Who runs which task: the pure part of the classic group protocol.

``sticky`` says where tasks shall run in the end, with the exchanges that ``racks`` finds, ``availability`` where they
run until their state is there, ``standby`` where copies are kept. ``wire`` is what members tell the leader and the
leader tells them, ``assignor`` joins all into the function that the membership calls when this member is the leader.
Nothing here knows a client or a clock.
"""

from __future__ import annotations

from headrace.assignment.assignor import GroupMember, MemberAssignment, Places, TaskAssignor
from headrace.assignment.availability import AssignmentSettings, Placement, place
from headrace.assignment.sticky import MemberState, assign, cooperative, owners
from headrace.assignment.wire import (
    RUNNING_OFFSET,
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
    "RUNNING_OFFSET",
    "AssignmentError",
    "AssignmentInfo",
    "AssignmentSettings",
    "GroupMember",
    "MemberAssignment",
    "MemberRequest",
    "MemberState",
    "Placement",
    "Places",
    "SubscriptionInfo",
    "TaskAssignor",
    "assign",
    "cooperative",
    "decode_assignment",
    "decode_subscription",
    "encode_assignment",
    "encode_subscription",
    "owners",
    "place",
]
