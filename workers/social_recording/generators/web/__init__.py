"""The web: a site's own page, and how old its domain is."""
