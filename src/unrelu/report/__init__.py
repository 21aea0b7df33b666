"""Results to read: facts for JSON, lines and tables for people, pictures; nothing here prints.

tables.py      facts(result) and rows(result) of any result; numbers with errors, diagnostics, tables in files
pictures.py    style, files, images of tables and weights
model.py       a fitted model, and the content of any file of ours; check.py: a check of it; both their pictures
imputation.py  a completed table, a predicted column; outliers.py: outlying rows and cells, the table without them
recovery.py    recovered components, rows through a given layer; layers.py: layers, units and inputs
graph.py       which columns depend on each other given all others; trying.py: the demo, the papers' figures again
page/          one page for a browser about a table and its model
"""
