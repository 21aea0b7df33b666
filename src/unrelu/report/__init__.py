"""Results as people read them: summaries in plain numbers, tables, pictures.

    summaries.py      a learned model in plain numbers, for tables and JSON alike
    comparison.py     estimates of latent moments against the true ones
    tables.py         summaries as tables for the terminal (rich)
    pictures.py       the picture of a learned model; drawing without pyplot's global state
    layer_picture.py  the picture of a network layer, learned against true
    contents.py       what is in a file of ours, whatever its kind
    outlier_summary.py  a judged table in plain numbers and tables
    outlier_picture.py  the picture of a table's outliers: scores, and the strangest cells
    cell_summary.py   the strangest cells of a table
    imputation_summary.py  a completed table in plain numbers
    imputation_picture.py  columns with most hidden cells: what is seen, what was filled in
    prediction_summary.py  how near predictions of a column come
    likelihood.py     log-likelihood, AIC and BIC
    check_summary.py  a check of a model in plain numbers and tables
    check_picture.py  quantiles of the columns that fit worst, counts of pairs
    factor_summary.py  recovered components in plain numbers and tables
    factor_picture.py  a table beside the matrix recovered behind it, and its components
    recover_summary.py  recovered rows in plain numbers and tables
    recover_picture.py  a table beside the clean one, its outliers and residuals
    peel_summary.py   layers in plain numbers
    peel_picture.py   weights, shares of rows off, and laws of hidden units
    generator_picture.py  the inputs of a network, and its samples beside the table
    table_image.py    what pictures of whole tables share
    page/             one page for a browser about a table and its model
    reproduction_picture.py  a reproduced figure or table, laid out like the paper's

Every function takes results and gives a value; nothing here computes an estimate or prints.
"""
