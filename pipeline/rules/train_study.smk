# One job a run of a study, at any scale of the papers.


use rule train as train_study with:
    output:
        update(
            expand(
                "results/{{paper}}/{{scale}}/{{setting}}/{{method}}/seed{{seed}}/{file}",
                file=flow.run_files,
            )
        ),
    log:
        messages="logs/train/{paper}/{scale}/{setting}/{method}/seed{seed}.log",
        benchmark="logs/benchmarks/{paper}/{scale}/{setting}/{method}/seed{seed}.tsv",
    wildcard_constraints:
        scale="study",
