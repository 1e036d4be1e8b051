# One job a run: for runs of minutes or hours. A finished run of the same specification and code is kept.


rule train:
    input:
        flow.partition,
    output:
        update(
            expand(
                "results/{{paper}}/{{scale}}/{{setting}}/{{method}}/seed{{seed}}/{file}",
                file=flow.run_files,
            )
        ),
    log:
        "logs/train/{paper}/{scale}/{setting}/{method}/seed{seed}.log",
    benchmark:
        "logs/benchmarks/{paper}/{scale}/{setting}/{method}/seed{seed}.tsv"
    conda:
        "../envs/fedrepro.yaml"
    threads: 1
    params:
        order=flow.order,
    shell:
        "fedcore run-batch {params.order.file} --threads {threads} 2> {log}"
