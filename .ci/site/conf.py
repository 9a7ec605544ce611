"""How Sphinx makes the site of the pages that `tests/site.py` lays out.

It is Sphinx with MyST: MkDocs is no longer kept, and its theme Material ends in May 2027. MyST reads Markdown as code
hosts do, so that a page looks the same there.
"""

project = "flowguard"
extensions = ["myst_parser"]
root_doc = "index"
smartquotes = False  # options and quotes are shown as they are typed
nitpicky = True

myst_heading_anchors = 6  # a link to any heading is checked, by the name that it has on a code host too
suppress_warnings = [
    "misc.highlighting_failure",  # outputs are shortened by an ellipsis, which is no JSON
]

html_theme = "furo"
html_title = "flowguard"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_use_index = False  # there are no index entries
pygments_style = "friendly"
pygments_dark_style = "monokai"
