"""The site: ``make docs`` builds it from these pages, the docstrings and the examples, without a network.

The pages read as well on a code host as here, so links in them are those of the repository: ``resolved`` turns links to
examples and to other files into links of the site.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
import warnings
from pathlib import Path
from typing import Any

from sphinx.errors import ConfigError

import unrelu

project = "unrelu"
author = "The unrelu developers"
copyright = "2026, the unrelu developers"
version = release = unrelu.__version__

_NEEDED = ("myst_parser", "numpydoc", "pydata_sphinx_theme", "sphinx_gallery", "matplotlib", "pandas")
if missing := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
    what = f'The site needs {", ".join(missing)}: pip install ".[docs]", or make docs, which does.'
    sys.stderr.write(f"{what}\n")  # Sphinx tells its versions first
    raise ConfigError(what)

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "README.md"]
templates_path = ["_templates"]
highlight_language = "none"  # formulas and tables of figures; code says what it is
smartquotes = False  # quotation marks stand around code: "auto", W W'
nitpicky = True
# Types in signatures are of other packages, or words ("bool, default=False"); names of ours must be there.
nitpick_ignore_regex = [("py:class", r"(?!unrelu\.).*"), ("py:obj", r"(?!unrelu\.).*")]

# --- pages ------------------------------------------------------------------------------------------------------------
myst_heading_anchors = 3
myst_links_external_new_tab = False
_NAMED_BY_FILE = re.compile(r"\[[\w/]+\.(?:md|py)\]\(")
_EXAMPLE = re.compile(r"\]\((?:\.\./)?examples/([\w/]+)\.py\)")


def resolved(app: Any, name: str, source: list[str]) -> None:
    """Links to examples lead to their pages of the gallery, and links named by a file take the title of its page."""
    up = "../" * name.count("/")
    text = _EXAMPLE.sub(rf"]({up}gallery/\1.rst)", _NAMED_BY_FILE.sub("[](", source[0]))
    source[0] = text.replace("](../examples)", f"]({up}gallery/index.rst)")


# --- reference --------------------------------------------------------------------------------------------------------
autosummary_generate = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
WIDEST = 84  # characters of a line of code, as tests/docs/test_names.py has it
_EXPLAINED = re.compile(r"docs/(troubleshooting)\.md#(\w+)")
_QUOTED = re.compile(r"(`+[^`]*`+_*)")
_MARKUP = re.compile(r"\||(?<=\w)_(?!\w)|\*(?!\*)")


def readable(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are written for a terminal: |W|, bias_ and indented formulas are no markup there."""
    told: list[str] = []
    formula = code = section = False
    for line in lines:
        section = section or line.startswith("----")
        code = (code and bool(line.strip())) or line.lstrip().startswith(">>>")
        formula = formula and (line[:1] == " " or not line)
        before = next((each for each in reversed(told) if each), " ")
        if line.startswith("    ") and not (formula or section or told[-1] or before.startswith(" ")):
            formula = True
            told += ["::", ""]
        if formula or code:
            told += fitted(line) if re.match(r"\s*(>>>|\.\.\.) ", line) else [line]
        elif section and line[:1] != " ":  # a name and its type: numpydoc takes care of the name
            name_, colon, kind = line.partition(" : ")
            told.append(name_ + colon + _plain(kind))
        else:
            told.append(_plain(line))
    lines[:] = told


def fitted(line: str, depth: int = 0) -> list[str]:
    """A line of an example as lines that fit the page, broken within as few brackets as possible.

    >>> fitted(">>> print(" + "12345678, " * 9 + "1)")[1]
    '...     12345678, 12345678, 1)'
    """
    if len(line) <= WIDEST:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    code, hash_, remark = line.partition("  # ")
    if hash_ and not remark.startswith("doctest"):
        return [f"{indent}{line.lstrip()[:3]} # {remark}", *fitted(code, depth)]
    quote, deep, breaks = "", depth, []
    for k, mark in enumerate(line[: WIDEST + 1]):
        if quote or mark in "\"'":
            quote = "" if mark == quote else quote or mark
        elif mark in ")]}":
            deep -= 1
        elif mark in "([{":
            deep += 1
            breaks.append((-deep, 1, k + 1))
        elif mark == " " and deep > 0 and line[len(indent) + 4 : k].strip():
            breaks.append((-deep, int(line[k - 1] == ","), k))
    if not breaks:
        return [line]
    deep, _, k = max(each for each in breaks if each[2] <= WIDEST)
    return [line[:k], *fitted(f"{indent}...     {line[k:].lstrip()}", -deep)]


def _plain(line: str) -> str:
    """Without markup by accident; where an error is explained becomes a link out of the folder of generated pages."""
    if _EXPLAINED.search(line):
        return _EXPLAINED.sub(r"`Troubleshooting <../\1.html#\2>`__", line)
    parts = _QUOTED.split(line)
    return "".join(part if part.startswith("`") else _MARKUP.sub(r"\\\g<0>", part) for part in parts)


def inside(app: Any, env: Any, node: Any, content: Any) -> Any:
    """Names of ours that have no page of their own are shown as they are, if they are there at all."""
    target, of = node.get("reftarget", ""), (node.get("py:module"), node.get("py:class"))
    places = [target, ".".join(filter(None, (*of, target))), f"{of[0]}.{target}"]
    return content if node.get("refdomain") == "py" and any(map(_exists, places)) else None


def _exists(name: str) -> bool:
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:end]))
            for part in parts[end:]:
                thing = getattr(thing, part)
        except (ImportError, AttributeError, ValueError):
            continue
        return parts[0] == "unrelu"
    return False


def skipped(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Of scikit-learn's own members its documentation tells, and of parts of our machinery nobody needs to know."""
    home = getattr(inspect.unwrap(getattr(member, "fget", member)), "__module__", "") or ""
    inherited = callable(member) and not home.startswith("unrelu")
    return True if inherited or re.fullmatch(r"set_\w+_request|check_loaded|agrees_with", name) else None


# --- gallery ----------------------------------------------------------------------------------------------------------
sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "subsection_order": [f"../examples/{name}" for name in ("tables", "layers", "tour")],
    "notebook_images": True,  # the picture of a page's first screen is in its notebook, too
    "filename_pattern": r"\.py$",
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "plot_gallery": True,
    "abort_on_example_error": False,
    "only_warn_on_example_error": False,
    "nested_sections": False,
    "download_all_examples": False,
    "min_reported_time": 0,
    "write_computation_times": False,
    "within_subsection_order": "FileNameSortKey",
    "default_thumb_file": str(Path(__file__).parent / "_static" / "floor.svg"),
    "backreferences_dir": None,
    "doc_module": (),
    "image_srcset": [],
}
# What examples warn of is part of them; where their files lie on this machine is not.
warnings.formatwarning = lambda message, category, *place, **more: f"{category.__name__}: {message}\n"

# --- looks ------------------------------------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = "unrelu"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/floor.svg"
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {page: [] for page in ("index", "getting_started", "troubleshooting", "faq", "papers")}
html_theme_options: dict[str, Any] = {
    "logo": {"text": "unrelu", "image_light": "_static/floor.svg", "image_dark": "_static/floor.svg"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_prev_next": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "navigation_with_keys": False,
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
    "footer_start": ["copyright"],
    "footer_end": [],
    "use_edit_page_button": False,
    "back_to_top_button": True,
}


def setup(app: Any) -> None:
    app.connect("source-read", resolved)
    app.connect("autodoc-process-docstring", readable, priority=400)  # before numpydoc takes it apart
    app.connect("autodoc-skip-member", skipped)
    app.connect("missing-reference", inside)
