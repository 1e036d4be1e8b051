#!/bin/sh
# One allocation for everything: Snakemake runs inside it and uses all of its cores and GPUs. Call sbatch in the
# project's folder, with what to ask for and then the reports; call it again to go on where the time ended:
#   sbatch --cpus-per-task 32 --gpus 4 --mem 64G --time 12:00:00 profiles/slurm/pilot.sh reports/rfedavg
#SBATCH --job-name fedrepro
#SBATCH --nodes 1
#SBATCH --ntasks 1
# Two minutes before its time ends, Snakemake stops the runs, which keep their checkpoints, and gives up its lock.
#SBATCH --signal B:INT@120

PATH="$PWD/.venv/bin:$PATH" # what uv made on the login node
limits=""
[ "${SLURM_GPUS_ON_NODE:-0}" = 0 ] || limits="gpu_percent=${SLURM_GPUS_ON_NODE}00"
[ -z "${SLURM_MEM_PER_NODE:-}" ] || limits="$limits mem_mb=$SLURM_MEM_PER_NODE"
# shellcheck disable=SC2086 # one word for each limit
exec snakemake --cores "${SLURM_CPUS_PER_TASK:-1}" ${limits:+--resources $limits} --profile profiles/gpu "$@"
