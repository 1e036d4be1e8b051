"""The papers: which runs a table or figure needs, and how runs become one. Built on fedcore."""
