"""One page about a table and its model, for a browser: what is under the floor, can I trust it, what is odd.

    looking.py        one pass over the rows: what is seen, at a limit, missing; a sample of the rows
    column_curves.py  columns: naive and learned means and medians, a histogram under the learned curve
    pair_matrix.py    latent and naive correlations, in the order of a clustering; a sample for scatter plots
    oddities.py       the strangest rows and cells
    components.py     how many directions the columns share, and which columns make them up
    filling.py        what the rest of their rows says of cells at a limit
    trust.py          the check of the fit, and the doubts
    making.py         all of them, in this order, into one record of facts
    packing.py        numbers and names as a page may hold them, however hostile
    writing.py        facts into one file: template, style, program (page.html, page.css, page.js), chart library

A part whose facts are not there, because there are no rows or too many columns, is left out of the page.
"""
