# One job a run; or one for all seeds of a setting and algorithm, where starting Python takes as long as a run.
# A finished run of the same specification and code is kept.
# Runs measure themselves: what a `benchmark:` directive would see is the command that waits for a shared process.


rule train:
    input:
        flow.partitions,
        ancient(flow.weights),
    output:
        update(
            expand(
                "results/{{paper}}/{{scale}}/{{setting}}/{{method}}/seed{seed}/{file}",
                seed=flow.seeds,
                file=flow.run_files,
            )
        ),
    log:
        messages=f"logs/train/{flow.job}.log",
        benchmark=f"logs/benchmarks/{flow.job}.tsv",
    wildcard_constraints:
        scale=flow.params.scale,
    group:
        flow.batch
    conda:
        flow.environment
    threads: 1
    resources:
        runtime=lambda wildcards, attempt: flow.cost(wildcards).minutes(attempt),
        mem_mb=lambda wildcards, attempt: flow.cost(wildcards).megabytes(attempt),
        gpu_percent=lambda wildcards: flow.cost(wildcards).gpu_percent,
    params:
        order=flow.order,
    shell:
        "fedcore run-batch {params.order[file]} --threads {threads} --gpu-percent {resources.gpu_percent}"
        " --benchmark {log.benchmark} 2> {log.messages}"
