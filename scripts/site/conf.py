# SPDX-License-Identifier: BSD-3-Clause
# Sphinx configuration for the web site of the documents: scripts/site/build copies this file next
# to them.
project = "Matchbox"
copyright = "2026, the Matchbox authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
# anchors of headings as code hosts make them, because the links assume these
myst_heading_anchors = 6
# the fields of a call in the API pages
myst_enable_extensions = ["deflist"]
html_theme = "furo"
html_title = "Matchbox"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
# a block without a language is a command and its output, not Python
highlight_language = "none"
# code blocks in languages that Pygments does not know are shown without highlighting
suppress_warnings = ["misc.highlighting_failure"]
