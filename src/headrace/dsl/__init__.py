"""The DSL: fluent handles record a logical graph, named passes rewrite it, and it is lowered to a topology."""

from headrace.dsl.builder import StreamsBuilder as StreamsBuilder
from headrace.dsl.cogrouped import CogroupedKStream as CogroupedKStream
from headrace.dsl.cogrouped import SessionWindowedCogroupedKStream as SessionWindowedCogroupedKStream
from headrace.dsl.cogrouped import TimeWindowedCogroupedKStream as TimeWindowedCogroupedKStream
from headrace.dsl.global_table import GlobalKTable as GlobalKTable
from headrace.dsl.grouped import KGroupedStream as KGroupedStream
from headrace.dsl.grouped_table import KGroupedTable as KGroupedTable
from headrace.dsl.kstream import BranchedKStream as BranchedKStream
from headrace.dsl.kstream import KStream as KStream
from headrace.dsl.ktable import KTable as KTable
from headrace.dsl.windowed import SessionWindowedKStream as SessionWindowedKStream
from headrace.dsl.windowed import TimeWindowedKStream as TimeWindowedKStream
