# Data files from the mirror or from upstream, verified. Demo data are in the repository.


localrules:
    fetch,


rule data:
    """The data files that the scale in use needs and the repository doesn't hold."""
    input:
        flow.all_data,


rule fetch:
    output:
        touch("data/fetched/{fetched}.done"),
    log:
        "logs/data/{fetched}.log",
    conda:
        flow.environment
    params:
        what=flow.data_set,
        mirror=flow.mirror,
    shell:
        "fedcore data fetch {params.what} {params.mirror} 2> {log}"
