"""The physical topology: nodes, stores and topics, their sub-topologies, and how they are printed and planned."""

from headrace.topology.topology import Topology as Topology
