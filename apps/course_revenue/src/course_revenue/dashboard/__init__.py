"""The dashboard: the totals of the output topic on a web page that moves by itself.

``board``    what the topic says: totals, their sums, their movement; pure
``job``      what the job's HTTP ports say: tasks, lags, how long lines wait; pure
``feed``     board and job as frames for any number of pages; the one owner of both
``reader``   threads that read the topic and ask brokers and ports
``server``   the web server (extra ``dashboard``); ``static`` is the page
``command``  ``course-revenue dashboard``

Threads hand what they read to the event loop and share nothing. A page is a cursor into the board, not a queue: one
that is slow gets the newest state of what moved meanwhile.
"""

from __future__ import annotations
