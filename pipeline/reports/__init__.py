"""From finished runs to tables and figures: shared by all papers."""
