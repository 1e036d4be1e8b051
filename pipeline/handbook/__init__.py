"""The documentation's pages that follow from code and from other files; docs/ holds the written ones."""
