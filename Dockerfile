# relay as an image: `docker build -t relay .`. All stages have the same base, because the virtual environment holds absolute
# paths and links to the base's Python, and the kernel links to its C library.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS kernel
# Bookworm's `cargo` is too old; `cargo-web` is the one that Debian builds its browsers with.
# hadolint ignore=DL3008
RUN apt-get update && \
    { apt-get install --yes --no-install-recommends cargo-web || apt-get install --yes --no-install-recommends cargo; } && \
    rm -rf /var/lib/apt/lists/*
RUN python -m venv /maturin && /maturin/bin/pip install --no-cache-dir maturin==1.16.0
WORKDIR /kernel
COPY kernel ./
RUN --mount=type=cache,target=/root/.cargo/registry \
    /maturin/bin/maturin build --release --locked --compatibility linux --out /wheels

FROM ${BASE} AS build
ENV UV_CACHE_DIR=/var/cache/uv \
    UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy \
    UV_PYTHON=python3.11 \
    UV_PYTHON_DOWNLOADS=never
# uv in an environment of its own: a Debian Python lets nobody install beside it.
RUN python -m venv /uv && /uv/bin/pip install --no-cache-dir uv==0.13.9
WORKDIR /app
# The dependencies alone, so that a change of relay's code leaves this layer as it is. The extras are the object stores of claim checks.
RUN --mount=type=cache,target=/var/cache/uv \
    --mount=type=bind,source=uv.lock,target=/app/uv.lock \
    --mount=type=bind,source=pyproject.toml,target=/app/pyproject.toml \
    --mount=type=bind,source=kernel/pyproject.toml,target=/app/kernel/pyproject.toml \
    /uv/bin/uv sync --locked --no-install-project --extra s3 --extra gcs --extra azure
COPY pyproject.toml uv.lock README.md LICENSE ./
COPY kernel ./kernel
COPY relay ./relay
COPY spark_backfill ./spark_backfill
COPY --from=kernel /wheels /wheels
RUN --mount=type=cache,target=/var/cache/uv \
    /uv/bin/uv sync --locked --no-editable --extra s3 --extra gcs --extra azure && \
    /uv/bin/uv pip install --no-deps /wheels/*.whl

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="relay" \
      org.opencontainers.image.description="CDC format translator and Kafka relay" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /app/.venv /app/.venv
ENV PATH="/app/.venv/bin:${PATH}"
# A number, so that Kubernetes can tell that it is not root; there is no such user, and it owns nothing.
USER 10001:10001
# The exec form: SIGTERM reaches relay itself, and it drains.
ENTRYPOINT ["relay"]
CMD ["run", "--config", "/etc/relay/relay.toml"]
