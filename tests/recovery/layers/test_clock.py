"""A clock tells, ends a search in time, and keeps to its beginning."""

import time
from dataclasses import replace

import pytest

from unrelu.contracts import Step
from unrelu.recovery.layers.facets import Clock, TimeIsUp


def test_without_seconds_it_never_ends():
    heard = []
    clock = Clock(progress=heard.append)
    clock(Step("Looking", 1, 2))
    assert not clock.is_up
    assert clock.run(lambda: clock(Step("Looking", 2, 2))) is None
    assert [step.done for step in heard] == [1, 2]


def test_the_first_step_after_the_seconds_is_told_and_ends():
    heard = []
    clock = Clock(0.05, heard.append)
    clock(Step("Looking", 1, 2))
    time.sleep(0.06)
    assert clock.is_up
    with pytest.raises(TimeIsUp, match="Looking"):
        clock(Step("Looking", 2, 2))
    assert [step.done for step in heard] == [1, 2]


def test_stages_share_the_time():
    clock = Clock(0.05)
    time.sleep(0.06)
    assert replace(clock, stage="Later").is_up


def test_a_stage_renames_steps_and_hides_their_states():
    heard = []
    Clock(progress=heard.append, stage="Layer 1")(Step("Looking", 1, 2, "half", object()))
    [step] = heard
    assert (step.stage, step.done, step.total, step.words, step.state) == ("Layer 1", 1, 2, "half", None)


@pytest.mark.parametrize(
    ("error", "said"), [(TimeIsUp("Looking"), "The time was up"), (KeyboardInterrupt(), "The search was interrupted")]
)
def test_what_ends_a_search_is_said(error, said):
    def search():
        raise error

    assert Clock().run(search) == said


def test_mistakes_are_not_taken_for_an_end():
    def search():
        raise ValueError("a mistake")

    with pytest.raises(ValueError, match="a mistake"):
        Clock(1.0).run(search)
