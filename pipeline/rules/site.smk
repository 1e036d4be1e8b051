# Pages that show all reports and runs; `python -m pipeline site` makes them of whatever exists.


rule site:
    input:
        flow.all(),
        "reports/fidelity.csv",
        "reports/fidelity-claims.csv",
    output:
        "reports/site/index.html",
    log:
        "logs/reports/site.log",
    conda:
        "../envs/fedrepro.yaml"
    script:
        "../scripts/site.py"
