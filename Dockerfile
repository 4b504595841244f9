# One image for the API, the workers, the beat and the migration; the dashboard's has Flower on top.
#
#   docker build --target runtime -t converge .
#   docker build --target dashboard -t converge-dashboard .

FROM python:3.11-slim-bookworm AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/converge
ENV PATH=/opt/converge/bin:$PATH
WORKDIR /build

# The dependencies change less often than the code, so they have a layer of their own.
COPY requirements.lock ./
RUN pip install --require-hashes -r requirements.lock

COPY pyproject.toml MANIFEST.in README.md celeryconfig.py ./
COPY app app
COPY workers workers
COPY devstack devstack
RUN pip install --no-deps --no-build-isolation .


# Flower is no part of the runtime lock, so it and what it alone needs are taken from the full one.
FROM build AS build-dashboard

COPY requirements-dev.lock ./
RUN awk '/^[a-z]/ { keep = /^(flower|humanize|pytz|tornado)==/ } keep' requirements-dev.lock > dashboard.lock \
    && pip install --require-hashes --no-deps -r dashboard.lock


FROM python:3.11-slim-bookworm AS base

ENV PATH=/opt/converge/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# The only folder that a process may write to for good: the beat keeps there what it has sent.
RUN groupadd --system --gid 10001 converge \
    && useradd --system --uid 10001 --gid converge --no-create-home --home-dir /nonexistent converge \
    && install --directory --owner=converge --group=converge /var/lib/converge
WORKDIR /var/lib/converge
USER converge
# The API and the workers drain on SIGTERM, which reaches them because no shell stands between.
STOPSIGNAL SIGTERM


FROM base AS dashboard

COPY --from=build-dashboard /opt/converge /opt/converge
CMD ["celery", "-A", "workers", "flower", "--address=0.0.0.0", "--port=5555"]


FROM base AS runtime

COPY --from=build /opt/converge /opt/converge
EXPOSE 8000
CMD ["gunicorn", "-c", "python:app.serving", "app.wsgi:app", "-b", "0.0.0.0:8000"]
