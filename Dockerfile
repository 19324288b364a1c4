# docker build -t ddp_train . && docker run --rm --gpus all ddp_train      one rank per GPU; without --gpus two CPU ranks
# docker build -t ddp_train --build-arg DDP_CUDA=OFF . && docker run --rm ddp_train -np 4      CPU ranks only
#
#   BASE       Debian 12 image for the build. Its CUDA toolkit, cuDNN and NCCL are used, or those of PyPI (2 GB)
#   RUN_BASE   Debian 12 image to run in, without a toolkit. Give both as NAME@sha256:... to build the same image again
#   DDP_CUDA   ON, or OFF for a small image without GPU support
#   CMAKE_ARG  one more argument for cmake, for instance -DDDP_CUDA_ARCHITECTURES=90-real
#
# Options of launch/run and ddp_train follow the image's name. Results go to /output, which belongs to the user trainer.
# To mount your own folder there, add --user "$(id -u):$(id -g)". docker stop saves the run first: give it time (-t 60).
ARG BASE=debian:bookworm-slim
ARG RUN_BASE=debian:bookworm-slim

FROM ${BASE} AS build
ARG DDP_CUDA=ON CMAKE_ARG=
WORKDIR /ddp_train
COPY launch/setup launch/packages.txt launch/toolkit launch/toolkit.txt launch/
RUN launch/setup build && { [ "$DDP_CUDA" != ON ] || launch/toolkit install; }
COPY CMakeLists.txt CMakePresets.json ./
COPY src src
RUN cmake --preset cpu -DDDP_CUDA="$DDP_CUDA" -DBUILD_TESTING=OFF ${CMAKE_ARG:+"$CMAKE_ARG"} && \
    cmake --build --preset cpu --target ddp_train_program
COPY docker/pack docker/
RUN docker/pack build/cpu/ddp_train /packed

FROM ${RUN_BASE}
COPY launch /opt/ddp_train/launch
RUN /opt/ddp_train/launch/setup run image && rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_* && \
    install -d /data && ln -s /usr/share/datasets/fashion-mnist/* /data/ && \
    useradd --uid 1000 trainer && install -d -m 1777 -o trainer -g trainer /output
COPY docker/ssh /etc/ssh
COPY --from=build /packed /usr/local
RUN ldconfig
# NVIDIA's container runtime adds these on a host with GPUs.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 1000:1000
WORKDIR /output
STOPSIGNAL SIGUSR1
ENTRYPOINT ["/opt/ddp_train/launch/run"]
