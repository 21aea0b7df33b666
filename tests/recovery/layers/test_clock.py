"""A clock passes steps on, ends a search in time, and counts from its beginning."""

import time
from dataclasses import replace

import pytest

from unrelu.contracts import Step
from unrelu.recovery.layers.facets import Clock, TimeIsUp


def test_without_seconds_it_never_ends():
    reported = []
    clock = Clock(progress=reported.append)
    clock(Step("Looking", 1, 2))
    assert not clock.is_up
    assert clock.run(lambda: clock(Step("Looking", 2, 2))) is None
    assert [step.done for step in reported] == [1, 2]


def test_the_first_step_after_the_seconds_is_passed_on_and_ends():
    reported = []
    clock = Clock(0.05, reported.append)
    clock(Step("Looking", 1, 2))
    time.sleep(0.06)
    assert clock.is_up
    with pytest.raises(TimeIsUp, match="Looking"):
        clock(Step("Looking", 2, 2))
    assert [step.done for step in reported] == [1, 2]


def test_stages_share_the_time():
    clock = Clock(0.05)
    time.sleep(0.06)
    assert replace(clock, stage="Later").is_up


def test_a_stage_renames_steps_and_hides_their_states():
    reported = []
    Clock(progress=reported.append, stage="Layer 1")(Step("Looking", 1, 2, "half", object()))
    [step] = reported
    assert (step.stage, step.done, step.total, step.words, step.state) == ("Layer 1", 1, 2, "half", None)


@pytest.mark.parametrize(
    ("error", "reason"), [(TimeIsUp("Looking"), "The time was up"), (KeyboardInterrupt(), "The search was interrupted")]
)
def test_the_end_of_a_search_has_a_reason(error, reason):
    def search():
        raise error

    assert Clock().run(search) == reason


def test_mistakes_are_not_taken_for_an_end():
    def search():
        raise ValueError("a mistake")

    with pytest.raises(ValueError, match="a mistake"):
        Clock(1.0).run(search)
