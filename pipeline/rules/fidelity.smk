# Published numbers and claims beside ours; `fedcore fidelity` compares whatever exists.


rule fidelity:
    input:
        flow.reports.numbers(),
    output:
        "reports/fidelity.csv",
        "reports/fidelity-claims.csv",
        "reports/fidelity.md",
        "reports/fidelity.html",
    log:
        "logs/reports/fidelity.log",
    conda:
        flow.environment
    params:
        scale=flow.params.scale,
        order=flow.fidelity,
    shell:
        "python -m pipeline fidelity --params {params.order[file]} > {log} 2>&1"
