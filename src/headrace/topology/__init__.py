"""The physical topology: nodes, stores and topics, their sub-topologies, and how they are printed and planned."""

from headrace.topology.topology import Topology as Topology
from headrace.topology.topology import check_topology as check_topology
