"""One page about a table and its model, for a browser: what is under the floor, can I trust it, what is odd.

    columns.py  one pass over the rows; columns: naive and learned moments, a histogram under the learned curve
    pairs.py    latent and naive correlations, in the order of a clustering; directions that columns share
    rows.py     the check of the fit and the doubts; the strangest rows and cells; what cells at a limit hide
    making.py   all of them, in this order, into one record of facts, and that into a file
    writing.py  facts into a page: template, style, program (page.html, page.css, page.js), chart library

A part whose facts are not there, because there are no rows or too many columns, is left out of the page.
"""
