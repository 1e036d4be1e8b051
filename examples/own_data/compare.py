"""FedAvg against ProxYogi on a folder of clients/<id>.npz and test.npz."""

import statistics
import sys

import fedcore

BASE = {
    "data": {"name": "npz", "path": sys.argv[1]},
    "model": {"name": "mlp", "hidden": [32]},
    "training": {"rounds": 20, "local_epochs": 2, "batch_size": 16, "lr": 0.05},
}
METHODS = {"FedAvg": {"name": "fedavg"}, "ProxYogi": {"name": "prox_yogi", "mu": 0.01, "server_lr": 0.03}}

for label, algorithm in METHODS.items():
    runs = [fedcore.run(BASE | {"algorithm": algorithm, "seed": seed}) for seed in range(3)]
    accuracy = [100 * run.summary["final"]["test_accuracy"] for run in runs]
    print(f"{label:8} {statistics.fmean(accuracy):.2f} ± {statistics.stdev(accuracy):.2f} %")
