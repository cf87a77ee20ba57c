"""The SQL of the ledger: constants alone, run in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

LINE: Final = {
    "order_id": "VARCHAR",
    "line_id": "VARCHAR",
    "course_id": "VARCHAR",
    "unit_price_cents": "BIGINT",
    "quantity": "BIGINT",
    "line_type": "VARCHAR",
}
PLACE: Final = {"part": "INTEGER", "off": "BIGINT"}
TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "lines": {**PLACE, "time": "BIGINT", "beyond": "BOOLEAN", **LINE},
    "flight": LINE,
    "replayed": PLACE,
    "rejected": PLACE,
    "left_out": PLACE,
}
"""Input records; those in the repartition topic; places of input records that were replayed, that lie in the rejected
topic, and that the job leaves out as repeats. ``beyond`` are lines behind the cut."""

MACROS: Final = (
    """
    CREATE MACRO keeps_contract(course_id, line_type, price, quantity) AS coalesce(
        course_id IS NOT NULL AND line_type IN ('sale', 'refund') AND price >= 0 AND quantity >= 1
        AND price::HUGEINT * quantity::HUGEINT <= 9223372036854775807, FALSE)
    """,
    """
    CREATE MACRO cents_of(line_type, price, quantity) AS
        CASE line_type WHEN 'sale' THEN 1 ELSE -1 END * price::HUGEINT * quantity::HUGEINT
    """,
)

PREPARE: Final = (
    """
    -- what keeps the contract and was not replaced by its replay; "waits" lies in the rejected topic
    CREATE TEMP TABLE good AS
        SELECT lines.*, cents_of(line_type, unit_price_cents, quantity) AS cents, rejected.off IS NOT NULL AS waits
        FROM lines LEFT JOIN rejected USING (part, off) ANTI JOIN replayed USING (part, off)
        WHERE keeps_contract(course_id, line_type, unit_price_cents, quantity)
    """,
    """
    CREATE TEMP TABLE prefix AS
        SELECT *, row_number() OVER (PARTITION BY order_id, line_id ORDER BY waits, part, off) AS nth
        FROM good WHERE NOT beyond
    """,
)

REPEATED: Final = """
    SELECT part, off, time, order_id, line_id, course_id FROM prefix
    SEMI JOIN (SELECT order_id, line_id FROM prefix WHERE nth = 2) USING (order_id, line_id)
    WHERE NOT waits ORDER BY order_id, line_id, part, off
"""

FATES: Final = """
    CREATE TEMP TABLE fates AS
    WITH flying AS (
        -- the last ones of a kind that came in are the ones that are under way
        SELECT order_id, line_id, course_id, cents_of(line_type, unit_price_cents, quantity) AS cents, count(*) AS n
        FROM flight GROUP BY ALL
    ), under_way AS (
        SELECT part, off FROM prefix JOIN flying USING (order_id, line_id, course_id, cents) WHERE NOT waits
        QUALIFY row_number() OVER (
            PARTITION BY order_id, line_id, course_id, cents ORDER BY part DESC, off DESC
        ) <= n
    )
    SELECT prefix.part, prefix.off, course_id, cents,
        left_out.off IS NOT NULL AS repeat_left_out,
        under_way.off IS NOT NULL AS flies
    FROM prefix LEFT JOIN under_way USING (part, off) LEFT JOIN left_out USING (part, off)
    WHERE NOT waits
"""

SUMS: Final = """
    WITH counted AS (
        SELECT course_id,
            sum(cents) FILTER (nth = 1) AS once_cents,
            count(*) FILTER (nth = 1) AS once_lines,
            sum(cents) FILTER (nth = 1 AND waits) AS waiting_cents,
            count(*) FILTER (nth = 1 AND waits) AS waiting_lines,
            sum(cents) FILTER (nth > 1 AND NOT waits) AS repeat_cents,
            count(*) FILTER (nth > 1 AND NOT waits) AS repeat_lines
        FROM prefix GROUP BY course_id
    ), fate AS (
        SELECT course_id,
            sum(cents) FILTER (repeat_left_out) AS left_out_cents,
            count(*) FILTER (repeat_left_out) AS left_out_lines,
            sum(cents) FILTER (flies AND repeat_left_out) AS idle_cents,
            count(*) FILTER (flies AND repeat_left_out) AS idle_lines
        FROM fates GROUP BY course_id
    ), under_way AS (
        SELECT course_id, sum(cents_of(line_type, unit_price_cents, quantity)) AS flight_cents, count(*) AS flight_lines
        FROM flight GROUP BY course_id
    )
    SELECT course_id,
        coalesce(once_cents, 0), coalesce(once_lines, 0),
        coalesce(repeat_cents, 0), coalesce(repeat_lines, 0),
        coalesce(left_out_cents, 0), coalesce(left_out_lines, 0),
        coalesce(waiting_cents, 0), coalesce(waiting_lines, 0),
        coalesce(flight_cents, 0) - coalesce(idle_cents, 0), coalesce(flight_lines, 0) - coalesce(idle_lines, 0)
    FROM counted FULL JOIN fate USING (course_id) FULL JOIN under_way USING (course_id)
"""

COUNTS: Final = """
    SELECT
        count(*),
        count(*) FILTER (replayed.off IS NULL AND NOT keeps),
        count(*) FILTER (replayed.off IS NULL AND rejected.off IS NULL AND NOT keeps),
        count(*) FILTER (replayed.off IS NOT NULL),
        (SELECT count(*) FROM fates WHERE flies AND NOT repeat_left_out),
        (SELECT count(*) FROM fates WHERE repeat_left_out),
        (SELECT count(*) FROM prefix WHERE waits)
    FROM (
        SELECT *, keeps_contract(course_id, line_type, unit_price_cents, quantity) AS keeps FROM lines WHERE NOT beyond
    ) LEFT JOIN rejected USING (part, off) LEFT JOIN replayed USING (part, off)
"""

LANDED: Final = (
    """
    CREATE TEMP TABLE landed_good AS
        SELECT *, cents_of(line_type, unit_price_cents, quantity) AS cents, row_number() OVER (
            PARTITION BY order_id, line_id ORDER BY course_id, line_type, unit_price_cents, quantity
        ) AS nth
        FROM landed
        WHERE order_id IS NOT NULL AND line_id IS NOT NULL
            AND keeps_contract(course_id, line_type, unit_price_cents, quantity)
    """,
    """
    CREATE TEMP TABLE both_sides AS
    WITH topic AS (
        SELECT * FROM good
        QUALIFY row_number() OVER (PARTITION BY order_id, line_id ORDER BY beyond, waits, part, off) = 1
    ), matched AS (
        SELECT landed.course_id, landed.cents, landed.order_id IS NOT NULL AS landed,
            topic.course_id AS topic_course, topic.cents AS topic_cents, topic.order_id IS NOT NULL AS sent,
            coalesce(beyond, FALSE) AS beyond, coalesce(waits, FALSE) AS waits, part, off
        FROM topic FULL JOIN (SELECT DISTINCT order_id, line_id, course_id, cents FROM landed_good) AS landed
            USING (order_id, line_id)
        -- of rows of one line that say different things, one that differs from what was sent
        QUALIFY row_number() OVER (
            PARTITION BY order_id, line_id
            ORDER BY (landed.course_id, landed.cents) IS NOT DISTINCT FROM (topic.course_id, topic.cents),
                landed.course_id, landed.cents
        ) = 1
    ), newest AS (
        SELECT part, max(off) AS newest FROM matched WHERE landed AND sent GROUP BY part
    )
    SELECT matched.*, NOT landed AND NOT waits AND NOT beyond AND off > coalesce(newest, -1) AS tail
    FROM matched LEFT JOIN newest USING (part)
    """,
)

LANDED_SUMS: Final = """
    WITH rows AS (
        SELECT *, landed AND NOT beyond AS in_sql, coalesce(course_id, topic_course) AS course,
            landed AND sent AND (course_id, cents) IS DISTINCT FROM (topic_course, topic_cents) AS changed
        FROM both_sides
    )
    SELECT course,
        coalesce(sum(cents) FILTER (in_sql), 0), count(*) FILTER (in_sql),
        coalesce(sum(topic_cents) FILTER (tail), 0), count(*) FILTER (tail),
        coalesce(sum(cents) FILTER (in_sql AND waits), 0), count(*) FILTER (in_sql AND waits),
        count(*) FILTER (NOT landed AND NOT waits AND NOT beyond AND NOT tail),
        count(*) FILTER (landed AND NOT sent),
        count(*) FILTER (changed)
    FROM rows GROUP BY course
"""

LANDED_COUNTS: Final = """
    SELECT (SELECT count(*) FROM landed),
        (SELECT count(*) FROM landed) - (SELECT count(*) FROM landed_good),
        (SELECT count(*) FROM landed_good WHERE nth > 1),
        (SELECT count(*) FROM both_sides WHERE landed AND beyond)
"""
