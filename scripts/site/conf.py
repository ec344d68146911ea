# SPDX-License-Identifier: BSD-3-Clause
# How Sphinx makes the web site of the documents: scripts/site/build copies this file beside them.
project = "Matchbox"
copyright = "2026, the Matchbox authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
# anchors of headings are made as code hosts make them, which is what the links mean
myst_heading_anchors = 6
# the fields of a call
myst_enable_extensions = ["deflist"]
html_theme = "furo"
html_title = "Matchbox"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
# languages of code blocks that Pygments does not know are shown as they are
suppress_warnings = ["misc.highlighting_failure"]
