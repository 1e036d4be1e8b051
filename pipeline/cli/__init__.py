"""The commands that a checkout adds to ``fedcore``; the workflow calls them by ``python -m pipeline``."""

COMMANDS = {
    "Look": {
        "targets": "pipeline.cli.lookup:targets",
        "cost": "pipeline.cli.cost:cost",
        "explain": "pipeline.cli.lookup:explain",
        "runs": "pipeline.cli.lookup:runs",
        "chosen": "pipeline.cli.lookup:chosen",
        "evaluate": "pipeline.cli.evaluate:evaluate",
    },
    "Build": {
        "build": "pipeline.cli.build:build",
        "study": "pipeline.cli.new:study",
        "benchmark": "pipeline.cli.benchmark:benchmark",
        "paper": "pipeline.cli.new:paper",
        "readings": "pipeline.cli.build:readings",
        "partial": "pipeline.cli.reports:partial",
        "fidelity": "pipeline.cli.reports:fidelity",
        "site": "pipeline.cli.reports:site",
    },
    "Keep": {
        "reference": "pipeline.cli.keep:reference",
        "adopt": "pipeline.cli.keep:adopt",
        "prune": "pipeline.cli.keep:prune",
    },
    "For maintainers": {
        "report": "pipeline.cli.reports:report",
        "pdf": "pipeline.cli.reports:pdf",
        "metrics": "pipeline.cli.reports:metrics",
        "audit": "pipeline.cli.doctor:audit",
        "schema": "pipeline.cli.keep:schema",
        "dvc": "pipeline.cli.keep:dvc",
        "pictures": "pipeline.cli.keep:pictures",
        "rulegraph": "pipeline.cli.keep:rulegraph",
    },
}
