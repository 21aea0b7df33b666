"""Commands run in this process, with their files and output."""

from __future__ import annotations

import json
from functools import cache
from unittest.mock import patch

import numpy as np
from typer.main import get_command
from typer.testing import CliRunner

from unrelu.cli.app import app
from unrelu.tables import open_samples

built = cache(get_command)  # 17 commands with 300 options: to build them takes longer than most of them run


def invoke(*arguments, **options):
    """Run ``unrelu`` with these arguments in this process; the options are those of typer's ``CliRunner.invoke``."""
    with patch("typer.testing._get_command", built):
        return CliRunner().invoke(app, [str(each) for each in arguments], **options)


def rows_in(path):
    """The rows of a table."""
    return np.concatenate([block.values for block in open_samples(path).blocks()])


def answer_of(result):
    """The output of a successful command with --json."""
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)
