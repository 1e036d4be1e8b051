"""Write the mean and standard deviation of the final test accuracy of each point of the grid, in per cent."""

import json
import sys
from pathlib import Path

import pandas as pd
import yaml

out, *summaries = map(Path, sys.argv[1:])
keys = list(yaml.safe_load(Path("study.yaml").read_text())["grid"])
lines = []
for path in summaries:
    spec = yaml.safe_load((path.parent / "spec.yaml").read_text())
    final = json.loads(path.read_text())["final"]
    values = {key: spec[key.partition(".")[0]][key.partition(".")[2]] for key in keys}
    lines.append({**values, "accuracy": 100 * final["test_accuracy"] if final else None})  # None: diverged
found = pd.DataFrame(lines).groupby(keys)["accuracy"].agg(["mean", "std", "count"])
found.sort_values("mean", ascending=False).to_csv(out, float_format="%.4g")
