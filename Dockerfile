# relay as an image: `docker build -t relay .`. Both stages have the same base, because the virtual environment holds absolute
# paths and links to the base's Python.
ARG BASE=python:3.11-slim-bookworm

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
    /uv/bin/uv sync --locked --no-install-project --extra s3 --extra gcs --extra azure
COPY pyproject.toml uv.lock README.md LICENSE ./
COPY relay ./relay
COPY spark_backfill ./spark_backfill
RUN --mount=type=cache,target=/var/cache/uv \
    /uv/bin/uv sync --locked --no-editable --extra s3 --extra gcs --extra azure

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
