"""What a command wrote and said."""

from __future__ import annotations

import json

import numpy as np

from unrelu.samples import open_samples


def rows_in(path):
    """The rows of a table."""
    return np.concatenate([block.values for block in open_samples(path).blocks()])


def answer_of(result):
    """What a command that went well said with --json."""
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)
