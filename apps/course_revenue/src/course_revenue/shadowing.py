"""``course-revenue rebuild --shadow``: building a shadow, and letting it take the job's place."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from course_revenue import reports, shadow
from course_revenue.catching_up import run_to_the_end
from course_revenue.errors import RefusedError
from course_revenue.jobs import JobProcess
from course_revenue.options import as_given, propose, target
from course_revenue.reconciling import reconcile_job
from course_revenue.totals import on_one_line
from headrace.cli.common import FAILED, note, say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from course_revenue.shadow import Shadow
    from course_revenue.succession import Succession

_PATIENCE_S = 60.0


class Asked(NamedTuple):
    """What the options of ``rebuild`` say."""

    config: Path
    settings: tuple[str, ...]
    dry_run: bool
    yes: bool
    from_gap: bool
    wait_s: float
    log_file: Path


def build(asked: Asked) -> int:
    """Builds the shadow, or goes on building it, and compares; the exit code."""
    made = shadow.shadow_of(asked.config, asked.settings)
    plan = shadow.plan(made, from_gap=asked.from_gap)
    code = propose(plan.text(), plan.refusals, "Build it?", dry_run=asked.dry_run, yes=asked.yes)
    if code is not None:
        return code
    shadow.make_topics(made)
    run_to_the_end(made.beside, made.job, _instance(asked, made), "building the shadow")
    if not _compared(made):
        say(f"the shadow does not agree with the input: {_reconcile(asked, made.settings)} tells more")
        return FAILED
    say(f"to let it take the job's place: {_again(asked)} --switch")
    return 0


def switch_over(asked: Asked) -> int:
    """Lets the shadow take the job's place, or ends what an earlier call has begun; the exit code."""
    made = shadow.shadow_of(asked.config, asked.settings)
    taken = shadow.taken_by(made)
    if taken is not None:
        return _go_on(asked, made, taken)
    live = made.live
    if not shadow.is_there(made):
        raise RefusedError(f"there is no shadow of {live.application_id} to switch to: {_again(asked)} builds it")
    plan = shadow.plan(made, from_gap=True)
    lines = (
        f"switch from application {live.application_id} to {made.application_id}:",
        f"  let {made.application_id} count what came since it was built, while {live.application_id} goes on",
        f"  wait until every instance of {live.application_id} is stopped; from then on totals stand still",
        *_last_steps(asked, made, put=False),
        *(f"refused: {why}" for why in plan.refusals),
    )
    code = propose(lines, plan.refusals, "Switch?", dry_run=asked.dry_run, yes=asked.yes)
    if code is not None:
        return code

    def stopped(check: Callable[[], None]) -> None:
        shadow.await_nobody(made, note, check, asked.wait_s)

    run_to_the_end(made.beside, made.job, _instance(asked, made), "catching up", stopped)
    if not _compared(made):
        tells = _reconcile(asked, made.settings)
        raise RefusedError(f"nothing was switched: the shadow does not agree with the input: {tells}")
    shadow.await_nobody(made, note, lambda: None, 0.0)
    shadow.give_up(made, done=False)
    return _put_in_place(asked, made)


def _go_on(asked: Asked, made: Shadow, taken: Succession) -> int:
    """What is left of a switch that was begun; the exit code."""
    live = made.live
    if taken.application_id != made.application_id:
        raise RefusedError(shadow.given_up(made, taken))
    lines = (
        f"go on with the switch from application {live.application_id} to {made.application_id}:",
        *_last_steps(asked, made, put=taken.done),
    )
    code = propose(lines, (), "Go on?", dry_run=asked.dry_run, yes=asked.yes)
    if code is not None:
        return code
    if taken.done:
        return _finish(asked, made)
    shadow.await_nobody(made, note, lambda: None, 0.0)
    return _put_in_place(asked, made)


def _last_steps(asked: Asked, made: Shadow, *, put: bool) -> list[str]:
    """The steps from the one on behind which there is no way back, for a person."""
    live = made.live
    return [
        *(() if put else (f"  put the totals that differ into {live.settings.output}, in one transaction",)),
        f"  delete {', '.join(made.own_topics())}",
        f"  write a file beside {asked.config.name} with application.id={made.application_id}, to start instances with",
    ]


def _put_in_place(asked: Asked, made: Shadow) -> int:
    put = shadow.put_totals(made)
    shadow.give_up(made, done=True)
    note(f"put into {made.live.settings.output}: {put}")
    return _finish(asked, made)


def _finish(asked: Asked, made: Shadow) -> int:
    live = made.live
    settings = [*asked.settings, f"application.id={made.application_id}"]
    outcome = reconcile_job(target(asked.config, settings, None), timeout_s=_PATIENCE_S)
    note(reports.summary(outcome))
    if not outcome.comparison.agrees:
        say(f"the totals do not agree with the input: {_reconcile(asked, settings)} tells more")
        return FAILED
    shadow.drop_topics(made)
    new = shadow.write_config(made, asked.config)
    if new is None:
        say(f"start the instances with application.id={made.application_id} where {live.application_id} was set")
    else:
        others = [setting for setting in asked.settings if setting.partition("=")[0].strip() != "application.id"]
        say(f"start the instances with the new file: course-revenue run {as_given(new, others)}")
    say(f"{live.application_id} does not start any more: it would write to {live.settings.output}, too")
    return 0


def _compared(made: Shadow) -> bool:
    """Prints in which courses the job and its shadow differ; whether the shadow agrees with the input."""
    rows, agrees = shadow.compare(made)
    if rows:
        say("course_id\tlive_cents_from_input\tlive_lines_from_input\tshadow_cents_from_input\tshadow_lines_from_input")
    for row in rows:
        cells = (on_one_line(row.course_id), row.live_cents, row.live_lines, row.shadow_cents, row.shadow_lines)
        say("\t".join(map(str, cells)))
    verdict = "agrees" if agrees else "does not agree"
    note(
        f"{len(rows):,} courses differ between the job and its shadow in cents or lines; the shadow {verdict} with the"
        " input"
    )
    return agrees


def _instance(asked: Asked, made: Shadow) -> JobProcess:
    return JobProcess(asked.config, [*made.settings, *made.job.stepping()], asked.log_file)


def _again(asked: Asked) -> str:
    return f"course-revenue rebuild {as_given(asked.config, asked.settings)} --shadow"


def _reconcile(asked: Asked, settings: Sequence[str]) -> str:
    return f"course-revenue reconcile {as_given(asked.config, settings)}"
