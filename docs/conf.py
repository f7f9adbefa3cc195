"""Settings of the documentation: ``python -m sphinx -W --keep-going docs docs/_build`` builds it, without a network."""

from __future__ import annotations

import sys
from pathlib import Path

import tripoint

sys.path.insert(0, str(Path(__file__).parent))

project = "Tripoint"
author = copyright = "Tripoint contributors"
version = release = tripoint.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "reference"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

# Of docstrings: what stands in single backticks is a link where it names something public, and code elsewhere.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "furo"
html_title = "Tripoint"
html_copy_source = False
html_show_sphinx = False
