"""One page about a table and its model, for a browser: values below the floor, the fit, outlying rows and cells.

facts.py has all numbers; making.py makes the page of them, page.html, page.css, page.js and a chart library: one file.
"""
