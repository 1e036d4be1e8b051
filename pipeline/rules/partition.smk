# Which rows belong to which client: one file for all algorithms of a setting.


rule partition:
    input:
        ancient(flow.data),
    output:
        partition="results/{paper}/{scale}/partitions/{division}/seed{seed}/partition.npz",
        statistics="results/{paper}/{scale}/partitions/{division}/seed{seed}/stats.json",
    log:
        "logs/partitions/{paper}/{scale}/{division}/seed{seed}.log",
    retries: 0  # a wrong specification or file stays wrong
    conda:
        flow.environment
    params:
        order=flow.division,
        code=flow.division_code,
        out=subpath(output.partition, parent=True),
    shell:
        "fedcore partition {params.order[file]} --out {params.out} --code {params.code} --no-figure 2> {log}"
