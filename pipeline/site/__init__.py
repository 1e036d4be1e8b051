"""The site: reports, runs and their agreement with the papers as static pages that need no network."""
