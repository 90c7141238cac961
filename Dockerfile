# relay's image: `docker build -t relay .`; with Spark and Java: `docker build --target spark -t relay-spark .`.
# All stages have the same base, because the virtual environment contains absolute paths and links to the base's Python, and the
# kernel links to its C library.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS kernel
# Bookworm's `cargo` is too old; `cargo-web` is a newer one, with which Debian builds its browsers.
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
# The binding to Kerberos has no wheel for Linux.
# hadolint ignore=DL3008
RUN apt-get update && \
    apt-get install --yes --no-install-recommends gcc libc6-dev libkrb5-dev && \
    rm -rf /var/lib/apt/lists/*
# uv in a separate environment: Debian's Python does not allow other installations.
RUN python -m venv /uv && /uv/bin/pip install --no-cache-dir uv==0.13.9
WORKDIR /app
# Only the dependencies, so that a change of relay's code does not change this layer. The extras are the object stores of
# claim checks, logins to brokers, conditions on rows, and traces.
RUN --mount=type=cache,target=/var/cache/uv \
    --mount=type=bind,source=uv.lock,target=/app/uv.lock \
    --mount=type=bind,source=pyproject.toml,target=/app/pyproject.toml \
    --mount=type=bind,source=kernel/pyproject.toml,target=/app/kernel/pyproject.toml \
    /uv/bin/uv sync --locked --no-install-project --extra s3 --extra gcs --extra azure --extra msk --extra kerberos --extra rows --extra tracing
COPY pyproject.toml uv.lock README.md LICENSE ./
COPY kernel ./kernel
COPY relay ./relay
COPY spark_backfill ./spark_backfill
COPY --from=kernel /wheels /wheels
RUN --mount=type=cache,target=/var/cache/uv \
    /uv/bin/uv sync --locked --no-editable --extra s3 --extra gcs --extra azure --extra msk --extra kerberos --extra rows --extra tracing && \
    /uv/bin/uv pip install --no-deps /wheels/*.whl

# The Spark job's environment: the same, with PySpark, and with the jars of its Kafka connector, so that a run fetches nothing.
FROM build AS spark-build
# hadolint ignore=DL3008
RUN apt-get update && \
    apt-get install --yes --no-install-recommends openjdk-17-jre-headless && \
    rm -rf /var/lib/apt/lists/*
RUN --mount=type=cache,target=/var/cache/uv \
    /uv/bin/uv sync --locked --no-editable --inexact --extra s3 --extra gcs --extra azure --extra msk --extra kerberos --extra rows --extra tracing --extra spark && \
    /app/.venv/bin/python -m spark_backfill.connector /app/.venv/lib/python3.11/site-packages/pyspark/jars

FROM ${BASE} AS spark
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="relay-spark" \
      org.opencontainers.image.description="relay's Spark job, with Spark and Java" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# Java needs a home folder, which a user without a name does not have. Spark's pods start with tini.
# hadolint ignore=DL3008
RUN apt-get update && \
    apt-get install --yes --no-install-recommends libgssapi-krb5-2 openjdk-17-jre-headless tini && \
    rm -rf /var/lib/apt/lists/* && \
    ln -s "$(dirname "$(dirname "$(readlink -f /usr/bin/java)")")" /opt/java && \
    groupadd --gid 10001 relay && \
    useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp relay
COPY --from=spark-build /app/.venv /app/.venv
COPY deploy/spark/entrypoint.sh /opt/entrypoint.sh
ENV JAVA_HOME=/opt/java \
    SPARK_HOME=/app/.venv/lib/python3.11/site-packages/pyspark \
    PYSPARK_PYTHON=/app/.venv/bin/python \
    PYSPARK_DRIVER_PYTHON=/app/.venv/bin/python \
    PATH="/app/.venv/bin:${PATH}"
USER 10001:10001
WORKDIR /tmp
# Spark's pods pass `driver` or `executor`; any other command runs unchanged.
ENTRYPOINT ["/opt/entrypoint.sh"]
CMD ["python", "-m", "spark_backfill", "--config", "/etc/relay/relay.toml", "--spark-log", "-"]

# The last stage, relay itself, is built if no target is given.
FROM ${BASE} AS relay
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="relay" \
      org.opencontainers.image.description="CDC format translator and Kafka relay" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# MIT Kerberos, which slim base images lack.
# hadolint ignore=DL3008
RUN apt-get update && \
    apt-get install --yes --no-install-recommends libgssapi-krb5-2 && \
    rm -rf /var/lib/apt/lists/*
COPY --from=build /app/.venv /app/.venv
ENV PATH="/app/.venv/bin:${PATH}"
# A number, so that Kubernetes can verify that it is not root. The user does not exist, and owns no files.
USER 10001:10001
# The exec form: relay receives SIGTERM, and drains.
ENTRYPOINT ["relay"]
CMD ["run", "--config", "/etc/relay/relay.toml"]
