# Stages: build (CPU), test, build-cuda, runtime-cuda, szcore, runtime (default, CPU).
#   docker build -t brrd .                              CPU
#   docker build -t brrd:cuda --target runtime-cuda .   CUDA 13
#   docker build -t brrd:szcore --target szcore .       the SzCORE challenge
FROM debian:12 AS build
ARG DEBIAN_FRONTEND=noninteractive
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates sudo && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN ./dev build && DESTDIR=/stage cmake --install build --prefix /usr --strip

FROM build AS test
RUN ./dev test

FROM nvidia/cuda:13.0.1-cudnn-devel-ubuntu24.04 AS build-cuda
ARG DEBIAN_FRONTEND=noninteractive
WORKDIR /src
COPY . .
RUN ./dev build && DESTDIR=/stage cmake --install build --prefix /usr --strip

FROM debian:12-slim AS runtime-base
ARG DEBIAN_FRONTEND=noninteractive
RUN apt-get update && apt-get install -y --no-install-recommends libuv1 libgrpc29 libprotobuf-c1 libjansson4 libyaml-0-2 libssl3 \
        libcurl4 libsqlite3-0 libdnnl2 libmicrohttpd12 libgomp1 ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 900 --home-dir /results brrd \
    && install -d -o brrd -g brrd /data /cache /results /run/brrd
COPY configs/daemon.yaml /etc/brrd/daemon.yaml
USER brrd
VOLUME ["/data", "/cache", "/results"]
EXPOSE 9464
HEALTHCHECK --interval=15s --timeout=3s CMD brrctl version --endpoint unix:/run/brrd/brrd.sock > /dev/null || exit 1
ENTRYPOINT ["/usr/bin/brrd", "--config", "/etc/brrd/daemon.yaml"]

FROM nvidia/cuda:13.0.1-cudnn-runtime-ubuntu24.04 AS runtime-cuda
ARG DEBIAN_FRONTEND=noninteractive
RUN apt-get update && apt-get install -y --no-install-recommends libuv1t64 libgrpc29t64 libprotobuf-c1 libjansson4 libyaml-0-2 libssl3t64 \
        libcurl4t64 libsqlite3-0 libdnnl3 libmicrohttpd12t64 libgomp1 ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 900 --home-dir /results brrd \
    && install -d -o brrd -g brrd /data /cache /results /run/brrd
COPY --from=build-cuda /stage/usr /usr
COPY configs/daemon.yaml /etc/brrd/daemon.yaml
USER brrd
VOLUME ["/data", "/cache", "/results"]
EXPOSE 9464
HEALTHCHECK --interval=15s --timeout=3s CMD brrctl version --endpoint unix:/run/brrd/brrd.sock > /dev/null || exit 1
ENTRYPOINT ["/usr/bin/brrd", "--config", "/etc/brrd/daemon.yaml"]

# The detector alone, as SzCORE runs it (docs/eeg-tools.md): /data/$INPUT in, /output/$OUTPUT out, nothing else is needed.
FROM runtime-base AS szcore
COPY --from=build /stage/usr /usr
COPY deploy/szcore/detect /usr/bin/szcore-detect
ENV BRR_MODEL=demo
HEALTHCHECK NONE
ENTRYPOINT ["/usr/bin/szcore-detect"]

FROM runtime-base AS runtime
COPY --from=build /stage/usr /usr
