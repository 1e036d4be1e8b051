# Tables and figures of the papers, and their names as targets.


localrules:
    primary,
    unknown,


for name, files in flow.reports.named.items():

    rule:
        """All of a paper or all forms of a report; `fedcore targets` says which is what."""
        name:
            name
        input:
            files,


rule table:
    input:
        flow.summaries,
    output:
        csv=report(
            "reports/{paper}/{table}.csv",
            caption="../reports/table.rst",
            category="{paper}",
            labels={"target": "{table}", "form": "csv"},
        ),
        md="reports/{paper}/{table}.md",
        html=report(
            "reports/{paper}/{table}.html",
            caption="../reports/table.rst",
            category="{paper}",
            labels={"target": "{table}", "form": "page"},
        ),
        tex="reports/{paper}/{table}.tex",
        standalone="reports/{paper}/{table}.standalone.tex",
        provenance="reports/{paper}/{table}.provenance.json",
    log:
        "logs/reports/{paper}/{table}.log",
    conda:
        flow.environment
    params:
        order=flow.report,
    shell:
        "python -m pipeline report reports/{wildcards.paper}/{wildcards.table} --params {params.order[file]} > {log} 2>&1"


rule metrics:
    input:
        flow.tables_of,
    output:
        "reports/{paper}/metrics.json",
    log:
        "logs/reports/{paper}/metrics.log",
    conda:
        flow.environment
    shell:
        "python -m pipeline metrics {input} --out {output} 2> {log}"


rule pdf:
    input:
        "reports/{paper}/{table}.standalone.tex",
    output:
        "reports/{paper}/{table}.pdf",
    log:
        "logs/reports/{paper}/{table}.pdf.log",
    conda:
        flow.environment
    shell:
        "python -m pipeline pdf {input} {output} 2> {log}"


rule figure:
    input:
        summaries=flow.summaries,
        histories=flow.histories,
    output:
        csv="reports/{paper}/{figure}.csv",
        svg=report(
            "reports/{paper}/{figure}.svg",
            caption="../reports/figure.rst",
            category="{paper}",
            labels={"target": "{figure}", "form": "picture"},
        ),
        pdf="reports/{paper}/{figure}.pdf",
        png="reports/{paper}/{figure}.png",
        tex="reports/{paper}/{figure}.tex",
        caption="reports/{paper}/{figure}.caption.md",
        provenance="reports/{paper}/{figure}.provenance.json",
    log:
        "logs/reports/{paper}/{figure}.log",
    conda:
        flow.environment
    params:
        order=flow.report,
    shell:
        "python -m pipeline report reports/{wildcards.paper}/{wildcards.figure} --params {params.order[file]} > {log} 2>&1"


rule primary:
    input:
        f"reports/{flow.reports.primary}/{{top}}",
    output:
        "reports/{top}",
    log:
        "logs/reports/{top}.log",
    conda:
        flow.environment
    shell:
        "cp {input} {output} 2> {log}"


rule unknown:
    input:
        flow.unknown,
    output:
        "{unknown}",
    log:
        "logs/reports/unknown/{unknown}.log",
    wildcard_constraints:
        unknown=flow.reports.unknown,
    conda:
        flow.environment
    shell:
        "false 2> {log}"
