# The environment of pyproject.toml, at its pinned versions, on a processor without a GPU:
#   docker build -t fedrepro . && docker run --rm -v "$PWD/reports:/fedrepro/reports" fedrepro
FROM python:3.11-slim
RUN pip install --no-cache-dir uv
WORKDIR /fedrepro
COPY pyproject.toml README.md LICENSE ./
RUN uv sync --no-install-project --no-cache
COPY . .
RUN uv sync --no-cache
ENV PATH="/fedrepro/.venv/bin:$PATH" CUDA_VISIBLE_DEVICES=""
CMD ["snakemake", "--cores", "2", "reports/table1.tex"]
