"""The commands that a checkout adds to ``fedcore``; the workflow calls them by ``python -m pipeline``."""

PLACES = {
    "Look": "lookup:targets cost:cost lookup:explain lookup:runs lookup:chosen evaluate:evaluate",
    "Build": "build:build new:study benchmark:benchmark new:paper build:readings "
    "reports:partial reports:fidelity reports:site",
    "Keep": "keep:reference keep:adopt keep:prune",
    "For maintainers": "reports:report reports:pdf reports:metrics doctor:audit "
    "keep:schema keep:dvc keep:pictures keep:rulegraph",
}
COMMANDS = {
    panel: {place.partition(":")[2]: f"pipeline.cli.{place}" for place in places.split()}
    for panel, places in PLACES.items()
}
