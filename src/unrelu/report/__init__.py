"""Results as people read them: plain numbers, tables, pictures, one file for each kind of result.

    tables.py        rows, facts and doubts as tables for the terminal (rich); rows with their ids in files
    pictures.py      what all pictures share: style, files, images of tables and weights
    model.py         a learned model: columns, correlations, likelihood; model_picture.py: its picture
    contents.py      what is in a file of ours, whatever its kind
    check.py         a check of a model: what fits worst
    imputation.py    a completed table: rows, means, picture; prediction.py: a column predicted
    outliers.py      a judged table: the strangest rows; cells.py: the strangest cells, and the table without them
    factor.py        recovered components; recovery.py: rows recovered through a known layer
    layers.py        layers, units and inputs of a network; network.py: columns that are tied directly
    demo.py          the demo's layer, learned against true; reproduction.py: the papers' figures and tables again
    page/            one page for a browser about a table and its model

A result has its facts, for JSON, and what is shown of them, lines and tables; nothing here prints.
"""
