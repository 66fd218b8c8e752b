# Stages: build (CPU), test, build-cuda, runtime-cuda, szcore, runtime (default, CPU).
#   docker build -t brrd .                              CPU
#   docker build -t brrd:cuda --target runtime-cuda .   CUDA 13
#   docker build -t brrd:szcore --target szcore .       the SzCORE challenge
#   docker build --build-arg PACKAGES=given -t brrd .   CPU, from Debian packages that are at hand: `./dev package`, in build/packages
ARG PACKAGES=built

FROM debian:12 AS build
ARG DEBIAN_FRONTEND=noninteractive
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates sudo && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN rm -rf build && ./dev package && mkdir /packages && cp build/packages/brrd_*.deb build/packages/brrctl_*.deb build/packages/libbrr1_*.deb /packages

FROM build AS test
RUN ./dev test

FROM scratch AS built
COPY --from=build /packages/ /packages/

FROM scratch AS given
COPY build/packages/brrd_*.deb build/packages/brrctl_*.deb build/packages/libbrr1_*.deb /packages/

# The default stands here too: Podman 4.3 takes only those of FROM, and arguments given to it, for stages that it must build.
FROM ${PACKAGES:-built} AS packages
WORKDIR /packages

FROM nvidia/cuda:13.0.1-cudnn-devel-ubuntu24.04 AS build-cuda
ARG DEBIAN_FRONTEND=noninteractive
WORKDIR /src
COPY . .
# A missing part ends the build.
RUN ./dev configure -DBRR_CUDA=ON && ./dev build && DESTDIR=/stage cmake --install build --prefix /usr --strip

FROM nvidia/cuda:13.0.1-cudnn-runtime-ubuntu24.04 AS runtime-cuda
ARG DEBIAN_FRONTEND=noninteractive
RUN apt-get update && apt-get install -y --no-install-recommends libuv1t64 libgrpc29t64 libprotobuf-c1 libjansson4 libyaml-0-2 libssl3t64 \
        libcurl4t64 libsqlite3-0 libdnnl3 libmicrohttpd12t64 libgomp1 zlib1g ca-certificates tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 900 --home-dir /results brrd \
    && install -d -o brrd -g brrd /data /cache /results /run/brrd
COPY --from=build-cuda /stage/usr /usr
COPY configs/daemon.yaml /etc/brrd/daemon.yaml
USER 900:900
VOLUME ["/data", "/cache", "/results", "/run/brrd"]
EXPOSE 9464
# Process 1 is tini, which reaps what commands of hooks leave behind; brrd waits for its own children alone.
HEALTHCHECK --interval=15s --timeout=3s CMD ["brrctl", "version", "--endpoint", "unix:/run/brrd/brrd.sock"]
ENTRYPOINT ["/usr/bin/tini", "--", "/usr/bin/brrd"]
CMD ["--config", "/etc/brrd/daemon.yaml"]

# The package's user is made before it with a fixed number, which volumes and Kubernetes refer to. Everything that the daemon writes is a
# volume, so the root may be read-only.
FROM debian:12-slim AS runtime-base
ARG DEBIAN_FRONTEND=noninteractive
RUN --mount=type=bind,from=packages,source=/packages,target=/packages \
    useradd --system --uid 900 --user-group --home-dir /results --shell /usr/sbin/nologin brrd \
    && apt-get update && apt-get install -y --no-install-recommends systemd-standalone-sysusers tini /packages/*.deb && rm -rf /var/lib/apt/lists/* \
    && install -d -o brrd -g brrd /data /cache /results /run/brrd
COPY configs/daemon.yaml /etc/brrd/daemon.yaml

# The detector alone, as SzCORE runs it (docs/eeg-tools.md): /data/$INPUT in, /output/$OUTPUT out, nothing else is needed.
FROM runtime-base AS szcore
COPY deploy/szcore/detect /usr/bin/szcore-detect
ENV BRR_MODEL=ward
HEALTHCHECK NONE
USER 900:900
VOLUME ["/data", "/cache", "/results"]
ENTRYPOINT ["/usr/bin/szcore-detect"]

FROM runtime-base AS runtime
USER 900:900
VOLUME ["/data", "/cache", "/results", "/run/brrd"]
EXPOSE 9464
# Process 1 is tini, which reaps what commands of hooks leave behind; brrd waits for its own children alone.
HEALTHCHECK --interval=15s --timeout=3s CMD ["brrctl", "version", "--endpoint", "unix:/run/brrd/brrd.sock"]
ENTRYPOINT ["/usr/bin/tini", "--", "/usr/bin/brrd"]
CMD ["--config", "/etc/brrd/daemon.yaml"]
