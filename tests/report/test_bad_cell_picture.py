"""The picture of bad cells: rows by how bad they are, signs as colours, grey for missing ones."""

import numpy as np

from unrelu.report.outliers import bad_cell_picture
from unrelu.report.pictures import rendered


def test_rows_colours_and_words():
    bad = np.zeros((400, 3))
    bad[7], bad[9, 0], bad[11, 1] = [1.0, 1.0, 0.2], 1.0, np.nan
    outlier_score = np.ones((400, 3))
    outlier_score[9, 0] = -8.0
    figure = bad_cell_picture(outlier_score, bad, ("As", "$", "Fe"))
    image = figure.axes[0].images[0].get_array()
    np.testing.assert_allclose(image[0], [1.0, 1.0, 0.2])
    assert image[1, 0] == -1.0
    assert len(image) == 240
    assert "3 bad cells; the worst 240 of 400 rows" in figure.axes[0].get_title(loc="left")
    assert rendered(figure).startswith(b"\x89PNG")
