# docker build -t ddp_train . && docker run --rm ddp_train       (trains LeNet on two ranks, as an ordinary user)
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS build
WORKDIR /ddp_train
COPY launch launch
RUN launch/setup build
COPY CMakeLists.txt CMakePresets.json ./
COPY src src
RUN cmake --preset cpu -DBUILD_TESTING=OFF && cmake --build --preset cpu --target ddp_train_program

FROM ${BASE}
COPY launch /ddp_train/launch
RUN /ddp_train/launch/setup run && rm -rf /var/lib/apt/lists/* && useradd --create-home trainer
COPY --from=build /ddp_train/build/cpu/ddp_train /usr/local/bin/
USER trainer
WORKDIR /home/trainer
CMD ["mpirun", "-np", "2", "--bind-to", "none", "--oversubscribe", "ddp_train"]
