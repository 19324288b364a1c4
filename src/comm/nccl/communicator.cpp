#include "comm/nccl/communicator.h"

#include "comm/broadcast_host.h"
#include "comm/nccl/count.h"
#include "comm/nccl/environment.h"
#include "comm/nccl/handle.h"
#include "comm/nccl/memory.h"
#include "comm/nccl/poll.h"
#include "core/error.h"
#include "device/cuda/handles.h"

#include <array>
#include <bit>
#include <cstdlib>
#include <utility>

namespace ddp {
namespace {

ncclDataType_t type_of(const DeviceSpan& span) { return span.dtype == DType::f32 ? ncclFloat32 : ncclBfloat16; }

ncclUniqueId share_unique_id(Communicator& host) {
  ncclUniqueId id{};
  if (host.rank() == 0) {
    if (const auto why = describe_failure(ncclGetUniqueId(&id), nullptr))
      fail(Exit::communication,
           "NCCL cannot open a port for the other ranks: {}; set NCCL_SOCKET_IFNAME to a network "
           "interface that is up",
           *why);
  }
  auto words = std::bit_cast<std::array<int64_t, sizeof id / sizeof(int64_t)>>(id);
  broadcast_host(host, words);
  return std::bit_cast<ncclUniqueId>(words);
}

// Three streams; events order them, never the host:
//   compute        the device's stream
//   communication  greatest priority; each collective starts after the compute work issued so far
//   counting       counts completed collectives; no collective waits for it, nor compute work before the next join
// wait() orders compute after communication. So in a captured graph the work between the first collective and the last
// wait() is a branch that leaves compute and joins it again; the counts join at the end.
//
// Collectives are in place, so one rank alone has nothing to do. Then all stays on the compute stream, and wait()
// counts.
class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(Device& device, Communicator& host, std::unique_ptr<Communicator> owned_host,
                   std::chrono::seconds deadline)
      : device_(device),
        host_(host),
        owned_host_(std::move(owned_host)),
        deadline_(deadline),
        compute_(compute_stream(device)),
        communication_(make_stream(greatest_stream_priority())),
        counting_(make_stream(greatest_stream_priority())),
        event_(make_event()),
        counter_(device),
        nccl_(share_unique_id(host), host.rank(), host.size(), deadline),
        memory_(nccl_, streams()) {
    connect();
  }
  ~NcclCommunicator() override {
    forget(device_, counting_.get());
    if (idle_within(kShutdownTimeout, streams()) && !nccl_.failure())
      nccl_.leave();
    else
      nccl_.abort();
  }

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }

  Sequence all_reduce(DeviceSpan span) override {
    return start("all-reduce", span, [=, this](ncclComm_t comm) {
      return ncclAllReduce(span.data, span.data, span.count, type_of(span), ncclSum, comm, communication_.get());
    });
  }
  Sequence reduce_scatter(DeviceSpan span) override {
    const int64_t part = part_of(span);
    return start("reduce-scatter", span, [=, this](ncclComm_t comm) {
      return ncclReduceScatter(span.data, my_part(span), part, type_of(span), ncclSum, comm, communication_.get());
    });
  }
  Sequence all_gather(DeviceSpan span) override {
    const int64_t part = part_of(span);
    return start("all-gather", span, [=, this](ncclComm_t comm) {
      return ncclAllGather(my_part(span), span.data, part, type_of(span), comm, communication_.get());
    });
  }
  Sequence broadcast(DeviceSpan span, int root) override {
    return start("broadcast", span, [=, this](ncclComm_t comm) {
      return ncclBroadcast(span.data, span.data, span.count, type_of(span), root, comm, communication_.get());
    });
  }

  void wait(Sequence n) override {
    DDP_EXPECT(n <= started_);
    if (n <= waited_) return;
    if (size() > 1)
      order_after(compute_, communication_.get(), event_.get());
    else
      counter_.count(compute_, started_ - waited_);
    waited_ = started_;
  }
  void progress() override {}  // the GPU makes progress without the host

  Memory* memory() override { return &memory_; }
  bool capturable() const override { return true; }
  Sequence completed() const override { return counter_.value(); }
  void record_done_times() override { counter_.record_times(kDoneTimes); }
  std::optional<int64_t> done_ns(Sequence n) const override { return counter_.time_of(n); }
  bool done_on_device_clock() const override { return true; }
  std::optional<std::string> failure() const override { return nccl_.failure(); }

  void all_reduce_host(std::span<double> values) override { host_.all_reduce_host(values); }
  void barrier() override { host_.barrier(); }

  std::unique_ptr<Communicator> split(int colour) override {
    auto part = host_.split(colour);
    Communicator& host = *part;
    return std::make_unique<NcclCommunicator>(device_, host, std::move(part), deadline_);
  }

 private:
  std::vector<cudaStream_t> streams() const { return {compute_, communication_.get(), counting_.get()}; }

  int64_t part_of(const DeviceSpan& span) const {
    DDP_EXPECT(span.count % size() == 0);
    return span.count / size();
  }
  void* my_part(const DeviceSpan& span) const {
    return static_cast<char*>(span.data) + rank() * part_of(span) * static_cast<int64_t>(size_of(span.dtype));
  }

  Sequence start(const char* what, const DeviceSpan& span, const Nccl::Call& call) {
    DDP_EXPECT(!span.residual);
    if (size() == 1) return ++started_;
    order_after(communication_.get(), compute_, event_.get());
    if (span.count > 0) nccl_.run(what, call);
    order_after(counting_.get(), communication_.get(), event_.get());
    counter_.count(counting_.get());
    join_later(device_, counting_.get());
    return ++started_;
  }

  // NCCL opens its connections in the first collective: run one now, not in the first step.
  void connect() {
    Buffer one(device_, sizeof(float));
    device_.synchronize();
    try {
      nccl_.run("first all-reduce", [&](ncclComm_t comm) {
        return ncclAllReduce(one.data(), one.data(), 1, ncclFloat32, ncclSum, comm, communication_.get());
      });
      require(idle_within(deadline_, streams()), Exit::communication,
              "NCCL: first all-reduce: not done after {} s; make sure that the ranks can reach each other's GPUs; "
              "NCCL_DEBUG=INFO shows the attempts",
              deadline_.count());
    } catch (...) {
      nccl_.abort();  // before `one` is freed
      throw;
    }
  }

  Device& device_;
  Communicator& host_;
  const std::unique_ptr<Communicator> owned_host_;  // host_, if split() made this communicator; else null
  const std::chrono::seconds deadline_;
  const cudaStream_t compute_;
  const CudaStream communication_, counting_;
  const CudaEvent event_;  // reused: a wait refers to the last record before it was issued
  Counter counter_;
  Nccl nccl_;
  NcclMemory memory_;
  Sequence started_ = 0, waited_ = 0;
};

}  // namespace

void set_nccl_variables(const NcclConfig& config, int rank) {
  for (const auto& [name, value] : nccl_variables_to_set(config, rank, nccl_variables_of_process()))
    setenv(name.c_str(), value.c_str(), 1);
}

std::unique_ptr<Communicator> make_nccl_communicator(Device& device, Communicator& host, const NcclConfig& config) {
  return std::make_unique<NcclCommunicator>(device, host, nullptr, config.deadline);
}

std::string describe_nccl() {
  int version = 0;
  if (const auto why = describe_failure(ncclGetVersion(&version), nullptr))
    fail(Exit::communication, "cannot get the NCCL version: {}", *why);
  return describe_nccl(version, nccl_variables_of_process());
}

}  // namespace ddp
