"""Every table and figure is a file below reports/: `snakemake --cores 2 reports/table1.tex`."""

import gc

from snakemake.utils import min_version

from fedcore.execution import forkserver
from pipeline.workflow.answers import Workflow
from pipeline.workflow.adopt import forget_dead

min_version("9.11")
# A graph of thousands of jobs is in use, and large to look through.
gc.set_threshold(200_000, 50, 100)
if workflow.is_main_process:
    forget_dead()
# The workflow reads params.yaml itself: Snakemake's own reader takes six times as long.
flow = Workflow(config, workflow)
forkserver.share()


onstart:
    flow.begin()


onsuccess:
    flow.show_reports()


onerror:
    flow.say_what_now()


report: "pipeline/reports/workflow.rst"


wildcard_constraints:
    paper=flow.papers,
    table=flow.tables,
    figure=flow.figures,
    top=flow.reports.top,
    fetched=flow.fetched,
    scale=flow.scales,
    setting=r"[a-z0-9_]+-[a-z0-9_]+-[a-z0-9_]+",
    method=r"[a-z0-9_]+-[0-9a-f]{8}",
    division=r"[a-z0-9_]+-[a-z0-9_]+-[0-9a-f]{8}",
    seed=r"\d+",


rule:
    """Every table and figure of every paper, how near they come, and the site that shows them."""
    name:
        "reports/all"
    default_target: True
    input:
        flow.reports.all(),
        "reports/site/index.html",
        "reports/fidelity.html",


include: "pipeline/rules/report.smk"
include: "pipeline/rules/fidelity.smk"
include: "pipeline/rules/site.smk"
include: "pipeline/rules/data.smk"
include: "pipeline/rules/partition.smk"
include: "pipeline/rules/train.smk"
include: "pipeline/rules/train_study.smk"
