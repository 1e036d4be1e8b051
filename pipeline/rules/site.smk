# Pages that show all reports and runs; `fedcore site` makes them of whatever exists.


rule site:
    input:
        flow.reports.all(),
        "reports/fidelity.csv",
        "reports/fidelity-claims.csv",
    output:
        "reports/site/index.html",
    log:
        "logs/reports/site.log",
    conda:
        flow.environment
    params:
        order=flow.site,
    shell:
        "python -m pipeline site --params {params.order[file]} > {log} 2>&1"
