# Stages: build (CPU), test, build-cuda, szcore, runtime, runtime-cuda; the default is runtime, on the CPU.
#   docker build -t brrd .                              CPU
#   docker build -t brrd:cuda --target runtime-cuda .   CUDA 13: compiler and libraries come from the image CUDA
#   docker build -t brrd:szcore --target szcore .       the SzCORE challenge
#   docker build --build-arg PACKAGES=given -t brrd .   CPU, from Debian packages that are at hand: `./dev package`, in build/packages
ARG PACKAGES=built
ARG CUDA=nvidia/cuda:13.0.1-cudnn-devel-ubuntu24.04

FROM debian:12 AS sources
ARG DEBIAN_FRONTEND=noninteractive
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates sudo dpkg-dev file && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN rm -rf build

FROM sources AS build
RUN ./dev package && mkdir /packages \
    && cp build/packages/brrd_*.deb build/packages/brrctl_*.deb build/packages/libbrr1_*.deb /packages

FROM build AS test
RUN ./dev test

FROM scratch AS built
COPY --from=build /packages/ /packages/

FROM scratch AS given
COPY build/packages/brrd_*.deb build/packages/brrctl_*.deb build/packages/libbrr1_*.deb /packages/

# The default stands here too: Podman 4.3 takes only those of FROM, and arguments given to it, for stages that it must build.
FROM ${PACKAGES:-built} AS packages
WORKDIR /packages

FROM ${CUDA:-nvidia/cuda:13.0.1-cudnn-devel-ubuntu24.04} AS cuda

# The package brrd-cuda alone: the rest of the image is that of the CPU.
FROM sources AS build-cuda
COPY --from=cuda /usr/local/cuda-13.0 /usr/local/cuda
COPY --from=cuda /usr/include/x86_64-linux-gnu/cudnn*_v9.h /usr/local/cuda/include/
RUN cd /usr/local/cuda/include && for header in cudnn*_v9.h; do ln -sf "$header" "${header%_v9.h}.h"; done
RUN ./dev configure -DBRR_CUDA=ON -DBRR_TESTS=OFF -DCMAKE_SKIP_INSTALL_ALL_DEPENDENCY=ON && ninja -C build brr_cuda
RUN cd build && cpack -G DEB -D CPACK_COMPONENTS_ALL=brrd-cuda && mkdir /packages && cp packages/brrd-cuda_*.deb /packages

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

# What brrd-cuda links and opens comes beside the package, and the driver's libraries with NVIDIA's container toolkit (--gpus all).
FROM runtime AS runtime-cuda
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 0
COPY --from=cuda /usr/local/cuda-13.0/targets/x86_64-linux/lib/libcublasLt.so.13* /usr/lib/x86_64-linux-gnu/libcudnn*.so.9* \
    /usr/lib/x86_64-linux-gnu/libnccl.so.2* /usr/local/lib/
RUN --mount=type=bind,from=build-cuda,source=/packages,target=/packages dpkg -i /packages/*.deb && ldconfig
USER 900:900

FROM runtime
