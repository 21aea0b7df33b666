"""One page about a table and its model, for a browser: what is under the floor, can I trust it, what is odd.

facts.py has all numbers; making.py makes the page of them, page.html, page.css, page.js and a chart library: one file.
"""
