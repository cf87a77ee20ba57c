"""The real runtime in a seeded world: virtual time, virtual threads, virtual brokers, and faults.

``python -m simulation --seed 7`` with ``tests`` on the path runs one schedule again and tells what happened.
What runs is the product's own: stream threads, state updaters, committers, producers' and consumers' wrappers,
memberships, assignor, tasks, stores. What is virtual: threads and clocks (:mod:`simulation.clock`), processes and their
disks (:mod:`simulation.process`), the two client libraries (:mod:`simulation.clients`, :mod:`simulation.member`,
:mod:`simulation.streams_link`) and the brokers (:mod:`simulation.log`, :mod:`simulation.transactions`,
:mod:`simulation.groups`, :mod:`simulation.streams_group`).
"""
